-- Who is a member of which group chat. Members see the group's messages (functions/tables/access.sql), and
-- recall searches them in a scope of the group's own: each message of a group has entries in two scopes, in
-- its user's (or agent's) as before, and in the group's. So a scope is still open as a whole or not at all,
-- and who joins or leaves changes no entry.

create table public.chat_group_members (
    id uuid primary key default gen_random_uuid(),
    chat_id uuid not null references public.chat_groups (id) on delete cascade,
    user_id uuid not null,
    joined_at timestamptz not null default now() check (memoryd.time_fits('joined_at', joined_at)),
    constraint one_membership_in_a_group unique (user_id, chat_id)
);
comment on table public.chat_group_members is
    'Who is a member of a group chat, and so sees all of its messages, also those of before.';
comment on column public.chat_group_members.joined_at is
    'For the record. A member sees what was said before, too.';
create index chat_group_members_chat on public.chat_group_members (chat_id);
alter table public.chat_group_members enable row level security;
alter table public.chat_group_members force row level security;

alter table memoryd.entries add column group_scope bigint;
alter table memoryd.spare_entries add column group_scope bigint;
comment on column memoryd.entries.group_scope is
    'Of a message in a group chat: the group''s scope, where it has a second entry; null: it has none.';
comment on column memoryd.spare_entries.group_scope is
    'Of a message in a group chat: the group''s scope, where it has a second entry; null: it has none.';

-- Messages that are in a group already get their entries there in the background.
insert into memoryd.jobs (topic, ref, payload)
select 'index', m.id, '{"source": "conversation"}'
from public.conversation_messages m
where m.chat_id is not null and m.role <> 'system';
