-- What people say of themselves becomes memories (handlers/facts.py), and a memory says from when to when it
-- is true, and which one has replaced it.

alter table public.agent_memory add column valid_from timestamptz;
alter table public.agent_memory add column valid_to timestamptz;
alter table public.agent_memory add column superseded_by uuid;
comment on column public.agent_memory.valid_from is
    'Since when it is true; null: since created_at.';
comment on column public.agent_memory.valid_to is
    'Until when it was true; null: it still is. Set with superseded_by, unless the writer gives a time.';
comment on column public.agent_memory.superseded_by is
    'The memory that has replaced it. Such a memory is in no recall and no context; it stays, also when the '
    'one that replaced it is deleted.';

-- Not valid: the check of a big table takes long, and no row of before has these columns.
alter table public.agent_memory add constraint agent_memory_valid_from_check
    check (memoryd.time_fits('valid_from', valid_from)) not valid;
alter table public.agent_memory add constraint agent_memory_valid_to_check
    check (memoryd.time_fits('valid_to', valid_to)
           and (valid_to >= valid_from or valid_to is null or valid_from is null
                or memoryd.refuse('valid_to is before valid_from',
                                  'A memory ends when it begins, or later.'))) not valid;

-- Two memories cannot be made to replace each other at the same moment: whoever sets superseded_by holds one
-- of these locks, by the hash of the user.
insert into memoryd.locks (name) select 'superseding ' || n from generate_series(0, 63) n;

-- The attributes that memories found in conversations are about. memoryd's own: nobody is granted anything.
create table memoryd.facts (
    memory_id uuid primary key references public.agent_memory (id) on delete cascade,
    user_id uuid not null,
    family text not null,
    slot text not null,
    value text not null
);
comment on table memoryd.facts is
    'What facts are about: slot is the attribute (home, taste:jazz), family its part before the colon, value '
    'what is said of it, normalised; empty where somebody reworded the memory.';
create index facts_family on memoryd.facts (user_id, family);

-- Kept when the message expires: the fact outlives it. Deleted when the message is: the fact goes with its
-- last source.
create table memoryd.fact_sources (
    message_id uuid not null,
    memory_id uuid not null references memoryd.facts (memory_id) on delete cascade,
    said_at timestamptz not null,
    primary key (message_id, memory_id)
);
comment on table memoryd.fact_sources is 'The messages that a fact was found in.';
create index fact_sources_memory on memoryd.fact_sources (memory_id);
