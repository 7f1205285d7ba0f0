-- The passages that may answer a question, of all sources at once.
--
-- They are found with the owner's rights, in scopes that are open to the caller, and in scope 0 (what is
-- shared) only what its reader is granted (memoryd.may_find). The rows themselves are read with the caller's
-- own rights. Clients can call only memoryd.find() (search.sql), which checks who calls.
--
-- A passage is named by its ctid: all functions here are stable, so they see the table as one and the same
-- snapshot, in which a ctid stays what it is.

-- Whether a row meets the conditions (null: there are none). Those on role, speaker and session are for
-- messages; other rows meet them. Inlined.
create or replace function memoryd.meets(
    p_conditions memoryd.conditions, p_created_at timestamptz, p_session uuid, p_position integer,
    p_role text, p_speaker text)
returns boolean
language sql immutable parallel safe
return ((p_conditions).since is null or p_created_at >= (p_conditions).since)
    and ((p_conditions).until is null or p_created_at < (p_conditions).until)
    and (p_session is null
         or (((p_conditions).roles is null or p_role = any((p_conditions).roles))
             and ((p_conditions).speakers is null
                  or lower(coalesce(p_speaker, p_role)) = any((p_conditions).speakers))
             and ((p_conditions).left_out_session is null
                  or p_session <> (p_conditions).left_out_session
                  or p_position < (p_conditions).left_out_from)));

-- The nearest passages by code, as keys: codes and keys of a scope are read from an index, without the table.
-- p_times: only those that were written then (null: at any time), which are read by time from that index. Of
-- what is shared (scope 0) an end user gets only what they are granted, and this is asked of the table, as
-- are conditions.
create or replace function memoryd.nearest_by_code(
    p_request memoryd.search_request, p_times datemultirange, p_code bit varying, p_count integer)
returns table (scope bigint, id uuid, source text, passage smallint)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    privileged constant boolean := (p_request.reader).privileged;
    sources constant text[] := p_request.sources;
    -- Scopes that are searched whole, and 0 where only a part of it is granted.
    whole constant bigint[] :=
        case when privileged then p_request.scopes else array_remove(p_request.scopes, 0) end;
    partly constant boolean := not privileged and 0 = any(p_request.scopes);
    -- Asked once, since to look each source up takes longer than to compare two codes.
    of_all_sources constant boolean := memoryd.source_names(not privileged) <@ sources;
    conditions constant memoryd.conditions := p_request.conditions;
begin
    if p_times is not null then
        return query
        select n.scope, n.id, n.source, n.passage
        from unnest(p_times) as w(days)
        cross join unnest(p_request.scopes) as s(scope)
        cross join lateral (
            select e.* from memoryd.entries e
            where e.scope = s.scope and e.code is not null and e.source = any(sources)
              and e.created_at >= coalesce(lower(w.days)::timestamp at time zone 'utc', '-infinity')
              and e.created_at < coalesce(upper(w.days)::timestamp at time zone 'utc', 'infinity')) n
        order by n.code <~> p_code limit p_count;
        return;
    elsif p_request.scopes is null then
        return query
        select e.scope, e.id, e.source, e.passage from memoryd.entries e
        where e.code is not null and (of_all_sources or e.source = any(sources))
          and (conditions is null
               or memoryd.meets(conditions, e.created_at, e.session_id, e.position, e.role, e.speaker)
                  and memoryd.in_project(e.grants_metadata, conditions.project))
        order by e.code <~> p_code limit p_count;
        return;
    end if;
    if conditions is null then
        return query
        select e.scope, e.id, e.source, e.passage from memoryd.entries e
        where e.scope = any(whole) and e.code is not null and (of_all_sources or e.source = any(sources))
        order by e.code <~> p_code limit p_count;
    else
        return query
        select e.scope, e.id, e.source, e.passage from memoryd.entries e
        where e.scope = any(whole) and e.code is not null and (of_all_sources or e.source = any(sources))
          and memoryd.meets(conditions, e.created_at, e.session_id, e.position, e.role, e.speaker)
          and memoryd.in_project(e.grants_metadata, conditions.project)
        order by e.code <~> p_code limit p_count;
    end if;
    if partly then
        return query
        select e.scope, e.id, e.source, e.passage from memoryd.entries e
        where e.scope = 0 and e.code is not null and e.source = any(sources)
          and memoryd.meets(conditions, e.created_at, e.session_id, e.position, e.role, e.speaker)
          and memoryd.may_find(p_request, e.scope, e.group_scope, e.owner_id, e.access_level,
                               e.visibility_tags, e.grants_metadata)
        order by e.code <~> p_code limit p_count;
    end if;
end
$$;

-- The nearest passages by embedding. In small scopes the codes of all passages are compared, then the
-- embeddings of those nearest by code: with p_times of a thousand of those that were written then. In big
-- scopes the lists of an index are faster: that query is planned for each call and without sorting, so that
-- the plan reads this index, which returns them in order. As many lists are read as contain about 25,000
-- passages of these scopes, beside those of other scopes. For few passages it costs no more to compare all
-- codes (a code costs two fifths of a passage in a list), and finds more. The daemon builds the index when
-- there are many passages, and notes it in memoryd.settings.
--
-- A project is read from the table: so it is asked of the passages nearest by code, and of all codes only
-- where too few of those are in it. unmarked: sources whose rows need no mark of it.
create or replace function memoryd.nearest_passages(
    p_request memoryd.search_request, p_times datemultirange default null)
returns tid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    index constant jsonb := (select s.value from memoryd.settings s where s.key = 'dense_index.entries');
    scopes constant bigint[] := p_request.scopes;
    lists constant integer := index ->> 'lists';
    rows bigint := case when p_times is null then index ->> 'rows' end;
    project constant text := (p_request.conditions).project;
    unmarked constant text[] := case when (p_request.conditions).project_only then '{memory,insight}'
                                     else p_request.sources end;
    -- Computed once: under a generic plan an expression of a parameter is computed for each passage.
    sought constant halfvec := l2_normalize(p_request.embedding)::halfvec;
    code_sought constant bit varying := memoryd.signs_of(sought);
    -- This many by code, of which the nearest by embedding are kept: of the nearest ten passages almost none
    -- is missed.
    by_code constant integer := case when p_times is null then greatest(p_request.reach, 200) else 1000 end;
    keep constant integer := case when p_times is not null then by_code
                                  when p_request.reach > 200 then p_request.reach else 64 end
        + coalesce(cardinality((p_request.conditions).exclude), 0);
    asked memoryd.search_request := p_request;
    nearest tid[];
    compared bigint;
    probes_before constant text := coalesce(current_setting('ivfflat.probes', true), '1');
begin
    if scopes is not null and rows is not null then
        rows := (select coalesce(sum(t.passages), 0)
                 from unnest(scopes) as c(scope)
                 cross join lateral (
                     select s.passages from memoryd.scope_statistics s where s.scope = c.scope offset 0) t
                 where (p_request.reader).privileged or c.scope <> 0);
    end if;
    if rows > 250 * sqrt((index ->> 'rows')::bigint) then
        perform set_config('ivfflat.probes', least(lists, ceil(lists * 25000.0 / rows))::integer::text, true),
                set_config('enable_sort', 'off', true);
        execute format(
            'select array(
                 select e.ctid from memoryd.entries e
                 where ($1 is null or e.scope = any($1)) and e.source = any($2)
                   and memoryd.meets($3, e.created_at, e.session_id, e.position, e.role, e.speaker)
                   and memoryd.may_find($4, e.scope, e.group_scope, e.owner_id, e.access_level,
                                        e.visibility_tags, e.grants_metadata)
                   and (e.source = any($7) or e.grants_metadata ->> ''project'' = $8)
                 order by (e.embedding::halfvec(%1$s)) <=> $5::halfvec(%1$s) limit $6)', vector_dims(sought))
        into nearest
        using scopes, p_request.sources, p_request.conditions, p_request, sought, greatest(keep, 1000),
              unmarked, project;
        perform set_config('ivfflat.probes', probes_before, true), set_config('enable_sort', 'on', true);
        return nearest;
    end if;
    asked.conditions.project := null;
    loop
        select (array_agg(t.tid order by t.distance) filter (where t.is_here))[:keep]
                   || (array_agg(t.tid order by t.distance)
                           filter (where t.is_here and t.lasts))[:keep],
               count(*)
        into nearest, compared
        from memoryd.nearest_by_code(asked, p_times, code_sought, by_code) n
        cross join lateral (
            select e.ctid as tid, e.embedding <=> sought as distance,
                   memoryd.may_find(p_request, e.scope, e.group_scope, e.owner_id, e.access_level,
                                    e.visibility_tags, e.grants_metadata)
                   and (p_times is null or memoryd.meets(
                       p_request.conditions, e.created_at, e.session_id, e.position, e.role, e.speaker))
                   and (e.source = any(unmarked) or e.grants_metadata ->> 'project' = project) as is_here,
                   p_request.by_kind and p_times is null and e.expires_at is null as lasts
            from memoryd.entries e
            where e.scope = n.scope and e.id = n.id and e.source = n.source and e.passage = n.passage
            offset 0) t;
        exit when project is null or compared < by_code
            or cardinality(nearest) >= least(keep, greatest(64, p_request.count))
            or (asked.conditions).project is not null;
        asked.conditions.project := project;
    end loop;
    return coalesce(nearest, '{}');
end
$$;

-- The passages that the question's words lead to: those with the highest score, in that order. A passage that
-- several combinations lead to is contained several times. Because of `offset 0` rows are found by their
-- words, and only then asked whether they may be found: with all conditions in one place the planner reads
-- whole scopes instead. by_kind: beside them the best of those that last, since what happened may be all of
-- the best.
create or replace function memoryd.worded_passages(
    p_request memoryd.search_request, p_question memoryd.question)
returns tid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    scopes constant bigint[] := p_request.scopes;
    sources constant text[] := p_request.sources;
    conditions constant memoryd.conditions := p_request.conditions;
    reach constant integer := p_request.reach;
    unmarked constant text[] := case when conditions.project_only then '{memory,insight}' else sources end;
    project constant text := conditions.project;
    -- Keys of the inverted index, only of scopes that are open (null: all are). Callers give words, never
    -- keys: with a key of another user's scope, the time that the search takes would show which words are
    -- there.
    terms constant bigint[] := array(
        select hashtextextended(k.lexeme, k.scope)
        from unnest((p_question).words, (p_question).word_scopes) as k(lexeme, scope)
        where k.lexeme is not null and (scopes is null or k.scope = any(scopes)));
    together constant bigint[] := array(
        select hashtextextended(k.lexeme, k.scope)
        from unnest((p_question).combinations, (p_question).combination_scopes) with ordinality
             as k(lexeme, scope, nth)
        where k.lexeme is not null and (scopes is null or k.scope = any(scopes))
        order by k.nth);
    sought constant sparsevec := (p_question).weights;
    average constant double precision := (p_question).average_length;
begin
    return array(
        with led_to as materialized (
            (select e.tid, e.weights, e.length, e.expires_at
             from (select t.ctid as tid, t.* from memoryd.entries t
                   where memoryd.search_terms(t.scope, t.lexemes) && terms offset 0) e
             where (scopes is null or e.scope = any(scopes)) and e.source = any(sources)
               and memoryd.meets(conditions, e.created_at, e.session_id, e.position, e.role, e.speaker)
               and memoryd.may_find(p_request, e.scope, e.group_scope, e.owner_id, e.access_level,
                                    e.visibility_tags, e.grants_metadata)
               and (e.source = any(unmarked) or e.grants_metadata ->> 'project' = project)
             limit 20 * reach)
            union all
            (select p.tid, p.weights, p.length, p.expires_at
             from generate_series(1, cardinality(together), 3) first
             cross join lateral (
                 select e.tid, e.weights, e.length, e.expires_at
                 from (select t.ctid as tid, t.* from memoryd.entries t
                       where memoryd.search_terms(t.scope, t.lexemes) @> together[first:first + 2]
                       offset 0) e
                 where (scopes is null or e.scope = any(scopes)) and e.source = any(sources)
                   and memoryd.meets(conditions, e.created_at, e.session_id, e.position, e.role, e.speaker)
                   and memoryd.may_find(p_request, e.scope, e.group_scope, e.owner_id, e.access_level,
                                        e.visibility_tags, e.grants_metadata)
                   and (e.source = any(unmarked) or e.grants_metadata ->> 'project' = project)
                 limit 500
             ) p
             limit 1000)
        ), scored as (
            select l.tid, l.expires_at,
                   (l.weights <#> sought) / (0.5 + 0.5 * greatest(1, l.length) / average) as score
            from led_to l
        )
        (select s.tid from scored s order by s.score limit reach + reach / 2)
        union all
        (select s.tid from scored s
         where p_request.by_kind and s.expires_at is null order by s.score limit reach));
end
$$;

-- The first passage of each row that was written at the times that the question names, where these have few
-- rows; else of the first rows of each of forty slices of them. They are read by time from the index of the
-- codes, and at most a thousand that have no code yet. Of what is still to come also those of the latest
-- thousand passages whose text names it.
create or replace function memoryd.passages_of_time(
    p_request memoryd.search_request, p_question memoryd.question)
returns tid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    scopes constant bigint[] := p_request.scopes;
    sources constant text[] := p_request.sources;
    conditions constant memoryd.conditions := p_request.conditions;
    today constant date := memoryd.day_of(coalesce(conditions.asked_at, now()));
    coming constant datemultirange := (p_question).times * datemultirange(daterange(today, null));
begin
    return array(
        with windows as materialized (
            select w.since, w.until, count(*) over () as windows
            from (select min(e.since) as since, max(e.until) as until
                  from unnest((p_question).times) as t(days)
                  cross join unnest(scopes) as s(scope)
                  cross join lateral (
                      select coalesce(lower(t.days)::timestamp at time zone 'utc', '-infinity') as since,
                             coalesce(upper(t.days)::timestamp at time zone 'utc', 'infinity') as until) d
                  cross join lateral (
                      select min(m.created_at) as since, max(m.created_at) as until
                      from memoryd.entries m
                      where m.scope = s.scope and m.code is not null
                        and m.created_at >= d.since and m.created_at < d.until) e
                  group by t.days) w
            where w.since is not null
        ), slices as materialized (
            select w.since + n * s.step as since,
                   case when n = s.slices - 1 then w.until + interval '1 microsecond'
                        else w.since + (n + 1) * s.step end as until,
                   ceil(40 * p_request.shown / (s.slices * w.windows::numeric)) as most
            from windows w
            cross join lateral (
                select k.slices, (w.until - w.since) / k.slices as step
                from (select greatest(1, 40 / w.windows) as slices) k) s
            cross join generate_series(0, s.slices - 1) as n
        )
        select e.tid
        from slices w
        cross join unnest(scopes) as s(scope)
        cross join lateral (
            select t.ctid as tid from memoryd.entries t
            where t.scope = s.scope and t.code is not null and t.passage = 0
              and t.created_at >= w.since and t.created_at < w.until
              and t.source = any(sources) and (t.is_current or conditions.as_of is not null)
              and (p_request.agent is null or t.agent_id is null or t.agent_id = p_request.agent)
              and memoryd.meets(conditions, t.created_at, t.session_id, t.position, t.role, t.speaker)
              and memoryd.may_find(p_request, t.scope, t.group_scope, t.owner_id, t.access_level,
                                   t.visibility_tags, t.grants_metadata)
            order by t.created_at limit w.most) e
        union all
        (select e.ctid from unnest(scopes) as s(scope)
         cross join lateral (
             (select t.ctid, t.* from memoryd.entries t
              where t.scope = s.scope and t.code is null limit 1000)
             union all
             (select t.ctid, t.* from memoryd.entries t
              where t.scope = s.scope and t.code is not null and coming <> '{}'
                and t.created_at < today + 1 order by t.created_at desc limit 1000)) e
         where e.source = any(sources)
           and (coming && e.times or e.code is null and (p_question).times @> memoryd.day_of(e.created_at))
           and memoryd.may_find(p_request, e.scope, e.group_scope, e.owner_id, e.access_level,
                                e.visibility_tags, e.grants_metadata)));
end
$$;

-- The passages of a window of time (since, until), and those without a code, where these scopes have at most
-- p_most: then nothing needs to be looked for among what was written at other times. Null where they have
-- more, or no window is asked for. They are read by time from the index of the codes. Not of what is shared
-- with an end user: the time that it takes would tell whether others share anything.
create or replace function memoryd.passages_within(p_request memoryd.search_request, p_most integer)
returns tid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    scopes constant bigint[] := p_request.scopes;
    since constant timestamptz := (p_request.conditions).since;
    until constant timestamptz := (p_request.conditions).until;
    within tid[];
begin
    if coalesce(since, until) is null or scopes is null or p_request.ids is not null
       or not (p_request.reader).privileged and 0 = any(scopes) then
        return null;
    end if;
    within := array(
        select e.tid
        from unnest(scopes) as s(scope)
        cross join lateral (
            (select t.ctid as tid from memoryd.entries t
             where t.scope = s.scope and t.code is not null
               and t.created_at >= coalesce(since, '-infinity') and t.created_at < coalesce(until, 'infinity')
             limit p_most + 1)
            union all
            (select t.ctid from memoryd.entries t where t.scope = s.scope and t.code is null
             limit p_most + 1)) e
        limit p_most + 1);
    if cardinality(within) > p_most then
        return null;
    end if;
    return array(
        select e.ctid from memoryd.entries e
        where e.ctid = any(within) and e.source = any(p_request.sources)
          and memoryd.may_find(p_request, e.scope, e.group_scope, e.owner_id, e.access_level,
                               e.visibility_tags, e.grants_metadata));
end
$$;

-- All passages that may answer the question, each once or more; where rows are asked for by their ids, all
-- passages of these. Of a row that was changed a moment ago none: its new text is weighed by
-- memoryd.fresh_passages().
create or replace function memoryd.candidates(p_request memoryd.search_request, p_question memoryd.question)
returns tid[]
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    within constant tid[] := memoryd.passages_within(p_request, 60);
    worded tid[];
    asked memoryd.search_request;
    nearest tid[] := '{}';
    found record;
    best tid[];
    beside tid[] := '{}';
    sought constant sparsevec := (p_question).weights;
    average constant double precision := (p_question).average_length;
    scopes constant bigint[] := p_request.scopes;
    sources constant text[] := p_request.sources;
begin
    if p_request.ids is not null then
        return array(
            select e.tid
            from unnest(p_request.ids) as i(id)
            cross join unnest(scopes) as s(scope)
            cross join lateral (
                select t.ctid as tid, t.* from memoryd.entries t
                where t.scope = s.scope and t.id = i.id
                offset 0) e
            where e.source = any(sources)
              and memoryd.may_find(p_request, e.scope, e.group_scope, e.owner_id, e.access_level,
                                   e.visibility_tags, e.grants_metadata)
              and not exists (select from memoryd.unindexed u
                              where u.scope = e.scope and u.id = e.id and u.source = e.source and u.changed));
    end if;
    worded := coalesce(within, memoryd.worded_passages(p_request, p_question));
    if within is null and ((p_request.conditions).roles is not null
                           or (p_request.conditions).speakers is not null) then
        -- Messages of others, too: what is sought may be beside them.
        asked := p_request;
        asked.conditions.roles := null;
        asked.conditions.speakers := null;
        worded := worded[1:60] || memoryd.worded_passages(asked, p_question);
    end if;
    if within is null and p_request.embedding is not null then
        for found in
            select f.* from (values
                (memoryd.nearest_passages(p_request), greatest(64, p_request.reach)),
                (case when (p_question).times is not null and scopes is not null
                      then memoryd.nearest_passages(p_request, (p_question).times) end, 64)) as f(tids, most)
        loop
            -- Of many the nearest 64, and 64 of the others, which have the most of the question's words: in
            -- big scopes too many rows have these words to read them all.
            if cardinality(found.tids) > found.most then
                found.tids := found.tids[:64] || array(
                    select e.ctid from memoryd.entries e
                    where e.ctid = any(found.tids[65:]) and e.weights <#> sought < 0
                    order by (e.weights <#> sought) / (0.5 + 0.5 * greatest(1, e.length) / average)
                    limit 64);
            end if;
            nearest := nearest || found.tids;
        end loop;
    end if;
    if 'conversation' = any(sources) then
        -- The messages beside the best of these: a question is often answered in the next messages.
        best := worded[1:40] || nearest[1:15];
        beside := array(
            select t.ctid
            from memoryd.entries m
            join memoryd.entries t
                on t.session_id = m.session_id and t.position between m.position - 2 and m.position + 2
            where m.ctid = any(best) and m.session_id is not null
              and (scopes is null or t.scope = any(scopes))
              and memoryd.may_find(p_request, t.scope, t.group_scope, t.owner_id, t.access_level,
                                   t.visibility_tags, t.grants_metadata));
    end if;
    return worded || nearest || beside;
end
$$;
