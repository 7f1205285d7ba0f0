-- The formulas of kind and recency, and what the views of the sources (tables/sources.sql) ask of a row.

create or replace function memoryd.kind_weight(p_kind text) returns double precision
language sql immutable parallel safe
return case p_kind when 'outcome' then 1.0 when 'fact' then 1.0 when 'error' then 0.9
                   when 'goal' then 0.8 when 'observation' then 0.6 else 0.5 end;

-- The weight of a memory: its kind's. The fact that something was anchored says little, and must not stand
-- above what was anchored.
create or replace function memoryd.memory_weight(p_kind text, p_source text) returns double precision
language sql immutable parallel safe
return memoryd.kind_weight(p_kind) * case when p_source = 'anchor' then 0.2 else 1 end;

-- Which rows set the measure for each other in a context: what happened, which repeats the task that it is
-- of, and what is known or was said. Inlined.
create or replace function memoryd.kin_of(p_source text, p_kind text) returns text
language sql immutable parallel safe
return case when p_source = 'insight' or p_kind in ('outcome', 'error') then 'happened' else 'is known' end;

-- What of an entry of the team's knowledge is searched. Inlined: a query reads the columns named here and no
-- others.
create or replace function memoryd.searched_text(p_row public.shared_knowledge) returns text
language sql stable parallel safe
return concat_ws(E'\n', (p_row).title, (p_row).content, array_to_string((p_row).tags, ' '));

-- A message in a group chat is searched in two scopes: in that of its user (or agent), and, for the members
-- of the group, in the group's own. This is the second of the two: null where the message is in no group, and
-- for messages of role system, which are the agents'.
create or replace function memoryd.group_scope(p_chat uuid, p_role text) returns bigint
language sql immutable parallel safe
return case when p_role <> 'system' then hashtextextended('group ' || p_chat::text, 0) end;

-- The scope in which a message is searched by itself: that of its user or agent, or 0 where it is shared by
-- level. What nobody's user says in a group (its agents, system prompts) is not for others who ask the agent:
-- it has a scope of its own, which is read only by a search of all scopes. p_scope: the message's column.
create or replace function memoryd.message_scope(
    p_scope bigint, p_user uuid, p_chat uuid, p_level integer) returns bigint
language sql immutable parallel safe
return case when p_user is null and p_chat is not null and p_level is null
            then hashtextextended('said in group ' || p_chat::text, 0)
            else p_scope end;

-- The newest correction of an entry: one that names it and is later. So of two entries that correct each
-- other the later one counts.
create or replace function memoryd.corrected_by(p_row public.shared_knowledge) returns uuid
language sql stable parallel safe
return (select c.id from public.shared_knowledge c
        where c.related_ids @> array[(p_row).id] and c.related_ids <> '{}' and c.category = 'correction'
          and c.status <> 'archived' and c.org_id is not distinct from (p_row).org_id
          and (c.created_at, c.id) > ((p_row).created_at, (p_row).id)
        order by c.created_at desc, c.id desc
        limit 1);
