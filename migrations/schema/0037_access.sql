-- Whom agents are named for; names of lanes that users cannot make; and whose words are found by whom.

-- What nobody's user says in a group chat is found by the group alone (memoryd.message_scope). Its entries in
-- the scope of its agent, or in the one that is open to all agents, go now; the daemon writes those of its
-- new scope.

with said as materialized (
    select m.id, m.scope from public.conversation_messages m
    where m.chat_id is not null and m.user_id is null and m.access_level is null
), gone as (
    delete from memoryd.entries e
    using said s
    where e.scope = s.scope and e.id = s.id and e.source = 'conversation'
), waiting as (
    delete from memoryd.unindexed u
    using said s
    where u.scope = s.scope and u.id = s.id and u.source = 'conversation'
)
insert into memoryd.jobs (topic, ref, payload)
select 'index', s.id, '{"source": "conversation"}' from said s;

-- A user's erasure takes an agent with it only if a service named the agent for this user.
alter table public.agents add column named_for uuid;
comment on column public.agents.named_for is
    'The user of the first command or memory by which a service named it: the nil UUID for no user, or '
    'several; null before the first.';
update public.agents a
set named_for = coalesce(r.user_id, '00000000-0000-0000-0000-000000000000')
from public.agents g
cross join lateral (select m.user_id from public.agent_memory m where m.agent_id = g.agent_id limit 1) r
where g.agent_id = a.agent_id;

-- Lanes of links and facts have other names now (memoryd.associate_lane): the hash of the user comes first.
-- Who has leased one by its old name completes nothing more in it; the next lease does it again.
update memoryd.jobs j
set lane = coalesce(left(encode(sha256(uuid_send(m.user_id)), 'hex'), 16), '-') || ' ' || m.agent_id
from public.agent_memory m
where j.topic = 'associate' and j.lane is not null and m.id = j.ref;
update memoryd.jobs j set lane = right(j.lane, 16) || ' facts' where j.topic = 'facts' and j.lane is not null;
-- Dead letters, too: an erasure finds those of a user by the lane where their rows are gone.
update memoryd.dead_letters d
set lane = case when d.topic = 'facts' then right(d.lane, 16) || ' facts'
                when d.lane ~ ' [0-9a-f]{16}$' then right(d.lane, 16) || ' ' || left(d.lane, -17)
                else '- ' || d.lane end
where d.topic in ('associate', 'facts') and d.lane is not null;
delete from memoryd.lanes l where l.topic in ('associate', 'facts');
