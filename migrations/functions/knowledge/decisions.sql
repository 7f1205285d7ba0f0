-- Decisions: what is said about one when it is made, and how it turned out. Their shapes are checked when
-- they are written; older rows keep what they have.

-- Whether a value is a text that says something, or a list of such texts; null is neither.
create or replace function memoryd.is_text_or_list(p_value jsonb) returns boolean
language sql immutable parallel safe
return case coalesce(jsonb_typeof(p_value), 'null')
    when 'null' then null
    when 'string' then not memoryd.is_blank(p_value #>> '{}')
    when 'array' then not p_value @? '$[*] ? (@.type() != "string" || @ like_regex "^\\s*$")'
    else false end;

-- The text as a time; null if it is none. Times such as "tomorrow" are none: they depend on when they are
-- read.
create or replace function memoryd.time_or_null(p_text text) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO, YMD'
as $$
begin
    -- With an offset it may be in another year.
    return case when p_text ~ '^\d{4}-\d{2}-\d{2}([ T].*)?$'
                then nullif(p_text::timestamptz, greatest(p_text::timestamptz, '9999-12-30 00:00+00')) end;
exception when data_exception then
    return null;
end
$$;

-- What is wrong with an object that should have some of these keys; null: nothing.
create or replace function memoryd.unknown_key(p_object jsonb, p_keys text[]) returns text
language sql immutable parallel safe
return case when jsonb_typeof(p_object) <> 'object' then 'is of type ' || jsonb_typeof(p_object)
            when exists (select from jsonb_object_keys(p_object) k where k <> all (p_keys))
            then 'has an unknown key '
                || (select quote_literal(left(min(k), 60)) from jsonb_object_keys(p_object) k
                    where k <> all (p_keys)) end;

-- Whether an outcome is a success; null: it does not say, or there is none.
create or replace function memoryd.succeeded(p_outcome jsonb) returns boolean
language sql immutable parallel safe
return case when jsonb_typeof(p_outcome -> 'success') = 'boolean' then (p_outcome ->> 'success')::boolean end;

-- What is wrong with the reasons of a decision (decision_context); null: nothing.
create or replace function memoryd.fault_of_reasons(p_reasons jsonb) returns text
language sql stable
return coalesce(
    memoryd.unknown_key(p_reasons, '{reasoning,alternatives,assumptions,kill_criteria,review_by}'),
    case when p_reasons ->> 'review_by' is not null
              and memoryd.time_or_null(p_reasons ->> 'review_by') is null
         then 'review_by is no date' end,
    (select k.key || ' is no text and no list of texts'
     from unnest('{kill_criteria,assumptions,alternatives,reasoning}'::text[]) with ordinality as k(key, nth)
     where not memoryd.is_text_or_list(p_reasons -> k.key)
     order by k.nth limit 1));

-- What is wrong with an outcome; null: nothing.
create or replace function memoryd.fault_of_outcome(p_outcome jsonb) returns text
language sql stable
return coalesce(
    memoryd.unknown_key(p_outcome, '{result,scored_at,success,notes,scored_by}'),
    case when jsonb_typeof(p_outcome -> 'success') not in ('boolean', 'null')
             then 'success is not true or false'
         when jsonb_typeof(p_outcome -> 'result') not in ('string', 'null') then 'result is no text'
         when jsonb_typeof(p_outcome -> 'notes') not in ('string', 'null') then 'notes is no text'
         when p_outcome ->> 'scored_at' is not null
              and memoryd.time_or_null(p_outcome ->> 'scored_at') is null then 'scored_at is no time' end);

-- Checks what an entry says of a decision, when it is written or changed.
create or replace function memoryd.check_decision() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if memoryd.importing() then
        return new;
    end if;
    if new.decision_context is not null
       and (tg_op = 'INSERT' or new.decision_context is distinct from old.decision_context) then
        perform memoryd.json_fits('decision_context', new.decision_context);
        perform memoryd.refuse(
            'decision_context: ' || memoryd.fault_of_reasons(new.decision_context),
            'Give an object with some of: reasoning, alternatives, assumptions, kill_criteria (each a text '
            'or a list of texts) and review_by (a date such as 2026-12-31).');
    end if;
    if new.outcome is not null and (tg_op = 'INSERT' or new.outcome is distinct from old.outcome) then
        perform memoryd.json_fits('outcome', new.outcome);
        perform memoryd.refuse(
            'outcome: ' || memoryd.fault_of_outcome(new.outcome),
            'Give an object with some of: success (true or false), result (a text), notes (a text) and '
            'scored_at (a time such as 2026-02-16T14:00:00Z).');
    end if;
    return new;
end
$$;

-- The decision that an outcome is about: of those that it names the ones without an outcome; where it names
-- none, the one nearest in meaning that was made before, if it is near enough.
create or replace function memoryd.decisions_of(p_outcome public.shared_knowledge) returns setof uuid
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    if (p_outcome).related_ids <> '{}' then
        return query
        select k.id from public.shared_knowledge k
        where k.id = any((p_outcome).related_ids) and k.category = 'decision'
          and k.org_id is not distinct from (p_outcome).org_id;
        return;
    end if;
    return query
    select n.id
    from (select memoryd.said(regexp_replace((p_outcome).title, '^\W*outcome\W+', '', 'i'),
                              (p_outcome).content) as text) t
    cross join lateral memoryd.nearest_knowledge(
        t.text, (p_outcome).org_id,
        memoryd.embed(left(concat_ws(E'\n', t.text, array_to_string((p_outcome).tags, ' ')), 2000)),
        (p_outcome).id) n
    join public.shared_knowledge k on k.id = n.id
    where n.similarity >= 0.6 and k.category = 'decision' and k.outcome is null
      and k.created_at < (p_outcome).created_at
    order by n.similarity desc, n.id
    limit 1;
end
$$;

-- Outcomes score their decisions, each decision once: the second of two outcomes finds it scored, and changes
-- nothing. Locked in the order of their ids, so that two statements never wait for each other.
create or replace function memoryd.score_decisions() returns trigger
language plpgsql
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    changed uuid[];
begin
    if memoryd.importing() then
        return null;
    end if;
    if tg_op = 'INSERT' then
        select array_agg(n.id) into changed
        from new_rows n where n.category = 'outcome' and n.outcome is not null;
    else
        -- `not in` is always looked up by a hash; a join might not be.
        select array_agg(n.id) into changed
        from new_rows n
        where n.category = 'outcome' and n.outcome is not null
          and (n.id, n.outcome::text, n.related_ids::text) not in (
              select o.id, o.outcome::text, o.related_ids::text from old_rows o
              where o.category = 'outcome' and o.outcome is not null);
    end if;
    if changed is null then
        return null;
    end if;
    with said as materialized (
        select distinct on (d.id) d.id, n.id as by_id, n.outcome, n.created_at
        from public.shared_knowledge n
        cross join lateral memoryd.decisions_of(n) as d(id)
        where n.id = any(changed) and memoryd.succeeded(n.outcome) is not null
        order by d.id, n.created_at, n.id
    ), locked as materialized (
        select k.id from public.shared_knowledge k
        where k.id in (select s.id from said s) and k.outcome is null
        order by k.id for no key update
    )
    update public.shared_knowledge k
    set outcome = jsonb_build_object('scored_at', s.created_at) || jsonb_strip_nulls(s.outcome)
                  || jsonb_build_object('scored_by', s.by_id)
    from said s
    where k.id = s.id and k.id in (select l.id from locked l) and k.outcome is null;
    return null;
end
$$;

-- The kill criteria of a decision, as texts.
create or replace function memoryd.criteria_of(p_reasons jsonb) returns text[]
language sql immutable parallel safe
return case jsonb_typeof(p_reasons -> 'kill_criteria')
    when 'string' then array[p_reasons ->> 'kill_criteria']
    when 'array' then array(select jsonb_array_elements_text(p_reasons -> 'kill_criteria'))
    else '{}' end;

-- The entry that says that a kill criterion of a decision is met: one that is later and says most of it. Of a
-- criterion the words that command ("exit if") are left out.
create or replace function memoryd.meets_criterion(p_decision public.shared_knowledge) returns uuid
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    select n.id
    from unnest(memoryd.criteria_of((p_decision).decision_context)) as c(criterion)
    cross join lateral (
        select regexp_replace(c.criterion, '^.{0,40}?\m(?:if|when|once|as soon as)\M\s*', '', 'i') as text) t
    cross join lateral memoryd.nearest_knowledge(
        t.text, (p_decision).org_id, memoryd.embed(t.text), (p_decision).id) n
    join public.shared_knowledge k on k.id = n.id
    where n.said >= 0.5 and k.created_at > (p_decision).created_at
    order by n.said desc, n.id
    limit 1
$$;

-- The entry that contradicts a decision: a later one that corrects it by name, or says nearly the same and
-- the opposite of it. Outcomes of it do not.
create or replace function memoryd.contradicts(p_decision public.shared_knowledge) returns uuid
language sql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    select c.id
    from (select k.id, 0 as rank, k.created_at from public.shared_knowledge k
          where k.related_ids @> array[(p_decision).id] and k.related_ids <> '{}'
            and k.category = 'correction' and k.status <> 'archived'
          union all
          select k.id, 1, k.created_at
          from memoryd.nearest_knowledge(
              memoryd.said((p_decision).title, (p_decision).content), (p_decision).org_id,
              memoryd.embed(left(memoryd.searched_text(p_decision), 2000)), (p_decision).id) n
          join public.shared_knowledge k on k.id = n.id
          where n.near >= 0.5 and n.difference in ('denial', 'opposite', 'comparison')
            and k.category <> 'outcome') c
    where c.created_at > (p_decision).created_at
    order by c.rank, c.created_at desc, c.id
    limit 1
$$;

-- Decisions, and what each waits for: those that need a look come first.
create or replace function public.decisions(
    agent_id text default null, tag text default null, open_only boolean default true,
    match_count integer default 50)
returns table (id uuid, title text, created_by text, confidence text, tags text[], created_at timestamptz,
               review_by timestamptz, state text, because uuid, success boolean)
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    if decisions.match_count is null or decisions.match_count < 0 then
        raise exception 'match_count is %', coalesce(decisions.match_count::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give how many decisions you want, 0 or more.';
    end if;
    return query
    with newest as materialized (
        select k from public.shared_knowledge k
        where k.category = 'decision' and k.status <> 'archived'
          and k.org_id is not distinct from memoryd.caller_org()
          and (decisions.agent_id is null or k.created_by = decisions.agent_id
               or k.created_by_name = decisions.agent_id)
          and (decisions.tag is null or k.tags @> array[decisions.tag])
          and (not decisions.open_only or k.outcome is null)
        order by k.created_at desc
        limit decisions.match_count
    ), looked_at as materialized (
        select d.k, memoryd.time_or_null((d.k).decision_context ->> 'review_by') as review_by,
               case when (d.k).outcome is null then memoryd.contradicts(d.k) end as contradicted,
               case when (d.k).outcome is null then memoryd.meets_criterion(d.k) end as met
        from newest d
    )
    select (l.k).id, (l.k).title, (l.k).created_by, (l.k).confidence, (l.k).tags, (l.k).created_at,
           l.review_by, s.state, s.because, memoryd.succeeded((l.k).outcome)
    from looked_at l
    cross join lateral (
        select case when (l.k).outcome is not null then 'scored'
                    when l.met is not null then 'criterion met'
                    when l.contradicted is not null then 'contradicted'
                    when l.review_by < now() then 'overdue'
                    when memoryd.criteria_of((l.k).decision_context) = '{}' and l.review_by is null
                        then 'no criterion'
                    else 'open' end as state,
               coalesce(memoryd.uuid_or_null((l.k).outcome ->> 'scored_by'), l.met, l.contradicted)
                   as because) s
    order by array_position(
                 '{criterion met,contradicted,overdue,open,no criterion,scored}'::text[], s.state),
             l.review_by, (l.k).created_at desc, (l.k).id;
end
$$;
comment on function public.decisions(text, text, boolean, integer) is
    'Decisions of the caller''s organisation, newest first within a state: which of them a later entry '
    'contradicts, which are past their review date, and which meet a kill criterion (because: that entry).';

-- How often decisions came out well.
create or replace function public.decision_rates()
returns table (by text, value text, decisions bigint, open bigint, scored bigint, succeeded bigint,
               rate double precision)
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select g.by, g.value, count(*), count(*) filter (where g.success is null),
           count(g.success), count(*) filter (where g.success),
           (count(*) filter (where g.success))::double precision / nullif(count(g.success), 0)
    from (select v.by, v.value, memoryd.succeeded(k.outcome) as success
          from public.shared_knowledge k
          cross join lateral (
              select 'all' as by, '' as value
              union all
              select 'agent', coalesce(k.created_by_name, k.created_by)
              union all
              select 'confidence', k.confidence
              union all
              select distinct 'tag', t from unnest(k.tags) t where t is not null) v
          where k.category = 'decision' and k.org_id is not distinct from memoryd.caller_org()) g
    group by g.by, g.value
    order by array_position('{all,agent,confidence,tag}'::text[], g.by), count(*) desc, g.value
$$;
comment on function public.decision_rates() is
    'How often decisions came out well: of all, by agent, by confidence and by tag.';
