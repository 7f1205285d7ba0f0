-- Facts are read in stretches of a conversation (memories/facts.sql). What a message said is an id beside a
-- memory; the slots that rules compared go, and the memories that they found stay as they are.

-- Messages that a language model has not read yet. memoryd's own: nobody is granted anything.
create table memoryd.unread (
    message_id uuid primary key references public.conversation_messages (id) on delete cascade,
    session_id uuid not null,
    user_id uuid not null,
    message_index integer not null,
    said_at timestamptz not null,
    queued_at timestamptz not null default now()
);
comment on table memoryd.unread is
    'Messages of users that a language model is still to read for facts.';
comment on column memoryd.unread.queued_at is
    'When it was written here: a minute after the last one of its conversation they are read.';
create index unread_session on memoryd.unread (user_id, session_id, message_index);

alter table memoryd.fact_sources drop constraint fact_sources_memory_id_fkey;
alter table memoryd.fact_sources add constraint fact_sources_memory
    foreign key (memory_id) references public.agent_memory (id) on delete cascade not valid;
drop table memoryd.facts;

-- Names are read a message at a time, in any order.
update memoryd.jobs set topic = 'names', lane = null, payload = null where topic = 'facts';
