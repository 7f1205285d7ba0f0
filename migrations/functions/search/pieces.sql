-- Messages that a recall has found, shown with those beside them: one readable piece of a conversation
-- instead of single lines. Read with the caller's rights.

-- Which of the messages found (ids, best first) are shown together. Each begins a piece of p_around messages
-- before and after it, unless it is in the piece of a better one. Where its piece would overlap a better
-- one's, it widens that one, up to 4 x p_around + 1 messages; beyond, it has only the messages that are left.
-- So no message is shown twice. number: the index of the piece's best message in p_ids.
create or replace function memoryd.pieces_of(p_ids uuid[], p_around integer)
returns table (number integer, session_id uuid, first_index integer, last_index integer)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    numbers integer[] := '{}';
    sessions uuid[] := '{}';
    firsts bigint[] := '{}';
    lasts bigint[] := '{}';
    each record;
    piece integer;
begin
    for each in
        select i.nth, m.session_id as session, m.message_index::bigint as middle,
               m.message_index::bigint - p_around as first, m.message_index::bigint + p_around as last
        from unnest(p_ids) with ordinality as i(id, nth)
        join public.conversation_messages m on m.id = i.id
        order by i.nth
    loop
        continue when exists (
            select from generate_subscripts(numbers, 1) p
            where sessions[p] = each.session and each.middle between firsts[p] and lasts[p]);
        select min(p) into piece from generate_subscripts(numbers, 1) p
        where sessions[p] = each.session and each.first <= lasts[p] and each.last >= firsts[p]
          and greatest(each.last, lasts[p]) - least(each.first, firsts[p]) <= 4 * p_around;
        if piece is null then
            select greatest(each.first, max(lasts[p] + 1) filter (where lasts[p] < each.middle)),
                   least(each.last, min(firsts[p] - 1) filter (where firsts[p] > each.middle))
            into each.first, each.last
            from generate_subscripts(numbers, 1) p
            where sessions[p] = each.session;
            numbers := numbers || each.nth::integer;
            sessions := sessions || each.session;
            firsts := firsts || each.first;
            lasts := lasts || each.last;
        else
            firsts[piece] := least(firsts[piece], each.first);
            lasts[piece] := greatest(lasts[piece], each.last);
        end if;
    end loop;
    return query
    select n, s, greatest(f, -2147483648)::integer, least(l, 2147483647)::integer
    from unnest(numbers, sessions, firsts, lasts) as p(n, s, f, l);
end
$$;

-- Whether a message in a group of the caller's is of a member who has switched memory off. End users do not
-- read others' settings; that recall finds nothing of a member they may see.
create or replace function memoryd.is_withheld(p_message uuid) returns boolean
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return not memoryd.caller_is_privileged() and exists (
        select from public.conversation_messages m
        join public.chat_group_members c on c.chat_id = m.chat_id and c.user_id = memoryd.caller_id()
        join public.memory_settings s on s.user_id = m.user_id and not s.memory_enabled
        where m.id = p_message);
end
$$;

-- The text of each piece of pieces_of(), and the ids of its messages. All but the best are cut at 1,000
-- characters. The messages beside those found are those that the caller may read and that recall would find:
-- in the current project, under the conditions on times and sessions, of the same user or of the same group,
-- and not of another user who has switched memory off. Messages of a group are shown only where the group was
-- searched: for this user (about) if they are a member; never for an agent; in a search of everything if the
-- speaker of the best message is still a member. And the current project is no other group.
create or replace function memoryd.show_pieces(p_request memoryd.search_request, p_ids uuid[])
returns table (number integer, content text, message_ids uuid[])
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    -- The conditions on role and speaker are only for the messages found, not for the messages beside them.
    conditions memoryd.conditions := p_request.conditions;
    project constant text := conditions.project;
    in_group constant text := lower(substring(project, '(?i)^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$'));
    about constant uuid := p_request.about;
    agent constant text := p_request.agent;
    -- Row-level security decides which messages of a group an end user reads.
    privileged constant boolean := memoryd.caller_is_privileged();
begin
    conditions.roles := null;
    conditions.speakers := null;
    conditions.until := least(conditions.until, conditions.as_of);
    return query
    select p.number,
           to_char(min(m.created_at) at time zone 'utc', '[YYYY-MM-DD HH24:MI]')
               -- Who says it, then what. A message of several lines is indented from the second line on, so
               -- that none can imitate the beginning of another one.
               || string_agg(
                   E'\n' || coalesce(nullif(memoryd.one_line(left(m.speaker, 200)), ''), m.role) || ': '
                   || regexp_replace(m.said, '[\x0a-\x0d\x85\u2028\u2029]+', E'\n    ', 'g'), ''
                   order by m.message_index),
           array_agg(m.id order by m.message_index)
    from memoryd.pieces_of(p_ids, p_request.around) p
    join public.conversation_messages best on best.id = p_ids[p.number]
    cross join lateral (
        select best.chat_id is not null
               and best.chat_id::text = coalesce(in_group, best.chat_id::text)
               and (not privileged
                    or (about is not null or agent is null)
                       and (coalesce(about, best.user_id) is null
                            or exists (select from public.chat_group_members c
                                       where c.chat_id = best.chat_id
                                         and c.user_id = coalesce(about, best.user_id)))) as is_open
        offset 0
    ) g
    cross join lateral (
        select t.id, t.speaker, t.role, t.message_index, t.created_at,
               case when t.id = best.id or length(t.content) <= 1000 then t.content
                    else left(t.content, 999) || '…' end as said
        from public.conversation_messages t
        where t.session_id = p.session_id and t.message_index between p.first_index and p.last_index
          and not memoryd.is_blank(t.content)
          and (t.id = any(p_ids)
               or (t.role <> 'system'
                   and (t.user_id = best.user_id
                        or (t.user_id is null and best.user_id is null
                            and coalesce(t.chat_id, best.chat_id) is null)
                        or (g.is_open and t.chat_id = best.chat_id))
                   and not case when privileged then memoryd.memory_is_off(t.user_id)
                                else memoryd.is_withheld(t.id) end
                   and memoryd.in_project(t.metadata, project)
                   and memoryd.meets(conditions, t.created_at, t.session_id, t.message_index, null, null)))
        -- So that each piece is read by the index. Otherwise it may be joined with all of its session.
        offset 0
    ) m
    group by p.number;
end
$$;
