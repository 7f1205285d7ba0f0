-- Anchors that are erased, turns of conversations that only call a tool, and when a memory was changed.

-- Of an erased anchor the row shows {"erased": true}, and nothing that its leaf does not protect any more
-- (docs/trail.md). It keeps its id, and the agent and the hashes that hold the agent's chain together.

alter table public.memory_anchors alter column category drop not null;
alter table public.memory_anchors alter column created_at drop not null;

update public.memory_anchors a
set category = null, cid = null, chain_tx = null, created_at = null, memory_id = null,
    previous_hash = case when l.chained then null else a.previous_hash end
from memoryd.trail_leaves l
where a.payload = '{"erased": true}' and l.anchor_id = a.id and l.salt is null;

create function memoryd.is_whole(p_payload jsonb, p_category text, p_created_at timestamptz)
returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select p_payload = '{"erased": true}' or p_category is not null and p_created_at is not null
           or memoryd.refuse('category or created_at of the anchor is null',
                             'Categories: milestone, decision, incident. Leave created_at out.')
$$;
alter table public.memory_anchors add constraint memory_anchors_whole
    check (memoryd.is_whole(payload, category, created_at)) not valid;

comment on column public.memory_anchors.category is 'Null: it was erased.';
comment on column public.memory_anchors.created_at is 'Null: it was erased.';

-- What is said of an agent's last anchor is read from the anchor.
alter table memoryd.trail_agents drop column last_category, drop column last_at;
comment on table memoryd.trail_agents is
    'How many anchors of an agent have a place in the log, and the hash of the last of them.';

-- Hosts keep a turn that calls a tool with its call in the metadata, often without a text, and what the tool
-- gave as a message of role tool.
alter table public.conversation_messages drop constraint conversation_messages_content_check;
alter table public.conversation_messages add constraint conversation_messages_content_check check (
    content ~ '\S' or metadata <> '{}'
    or memoryd.refuse('content is blank',
                      'A message says something. One that only calls a tool has the call in its metadata.'))
    not valid;
alter table public.conversation_messages drop constraint conversation_messages_role_check;
alter table public.conversation_messages add constraint conversation_messages_role_check check (
    role in ('user', 'assistant', 'system', 'tool')
    or memoryd.refuse('unknown role ' || quote_literal(role), 'Roles: user, assistant, system, tool.'))
    not valid;
comment on column public.conversation_messages.content is
    'What is said. It may be empty where the metadata say what the turn did, such as call a tool.';

-- updated_at moves with every change that a writer makes. Links, insights and the longest time that a user's
-- memories are kept depend on when the text was changed: that is another time now.
alter table public.agent_memory add column text_changed_at timestamptz;
comment on column public.agent_memory.text_changed_at is
    'When the text was changed last; null: at updated_at.';
