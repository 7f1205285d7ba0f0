-- Why a context is as it is.

-- What compose() would do for a message: a row for each pattern that it shows, with the words that
-- show it; one for each thing that is searched; one for each line that was found, with its score and its
-- trust class, and with the reason where it does not stand in the context (at most thirty lines). What is
-- known of the user comes first, a row of step `profile` for each line. Small talk has one more row, which
-- says so.
create or replace function memoryd.explain_lines(
    p_agent text, p_message text, p_user uuid, p_only_user boolean, p_embedding vector,
    p_conditions memoryd.conditions default null)
returns table (step text, source text, id uuid, score double precision, trust text, shown boolean,
               detail text)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set max_parallel_workers_per_gather = 0
set jit = off
as $$
#variable_conflict use_column
declare
    found constant record := memoryd.patterns_of(p_message, p_agent, p_user);
    profile constant memoryd.context_line[] := array(
        select l from memoryd.profile_lines(p_agent, p_message, p_user, p_conditions) l);
begin
    if memoryd.memory_is_off(p_user) then
        return query select 'skipped', null, null::uuid, null::float8, null, false, 'memory is switched off';
        return;
    end if;
    return query select 'profile', 'memory', p.id, p.score, p.trust, true, p.line from unnest(profile) p;
    if found.patterns = '{}' then
        return query select 'skipped', null, null::uuid, null::float8, null, false, 'small talk';
        return;
    end if;
    return query
    select 'pattern', null, null::uuid, null::float8, null, true,
           concat_ws(': ', p.pattern, nullif(memoryd.quoted(
               memoryd.words_of(p_message, p.pattern, found.names), 200), ''))
    from unnest(found.patterns) with ordinality as p(pattern, nth)
    order by p.nth;
    return query
    select 'search', v.source, null::uuid, null::float8, null, true, v.detail
    from (values
        ('insight', 'of the agent'), ('memory', 'of the agent and of all agents'),
        ('knowledge', case when not p_only_user then (
            select string_agg(
                distinct s.tier || coalesce('/' || array_to_string(s.categories, ' or '), ''), ', ')
            from memoryd.pattern_scopes() s where s.pattern = any(found.patterns)) end),
        ('document', 'what may be read'),
        ('conversation', 'what may be read')
    ) as v(source, detail)
    where v.detail is not null;
    return query
    select 'found', l.source, l.id, l.score, l.trust, l.why is null,
           coalesce('left out, ' || l.why || ': ', '') || l.line
    from (select g.*, row_number() over (order by g.why is null desc, g.nth) as rank
          from memoryd.gather_lines(
              p_agent, p_message, p_user, p_only_user, memoryd.comparable(p_embedding), found.patterns,
              found.names, memoryd.context_space(p_conditions.words) - 400, p_conditions, profile, true)
              with ordinality
              as g(source, kind, id, scope, score, created_at, trust, content, line, why, nth)) l
    where l.rank <= 30
    order by l.nth;
end
$$;

create or replace function public.explain_context(
    agent_id text, message text, user_id uuid default null, options jsonb default '{}')
returns table (step text, source text, id uuid, score double precision, trust text, shown boolean,
               detail text)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
    began constant timestamptz := clock_timestamp();
    found_rows bigint;
begin
    if explain_context.agent_id is null or explain_context.message is null then
        raise exception 'explain_context needs an agent and a message'
            using errcode = 'null_value_not_allowed',
                  hint = 'select * from explain_context(''agent'', ''what it is about to do'').';
    end if;
    perform memoryd.check_options('context', 'explain_context', explain_context.options);
    if not memoryd.may_ask_about(caller, explain_context.user_id) then
        return;
    end if;
    return query
    select e.* from memoryd.explain_lines(
        explain_context.agent_id, explain_context.message, coalesce(explain_context.user_id, caller.user_id),
        not caller.privileged,
        memoryd.vector_of_question(explain_context.message),
        memoryd.conditions_of(coalesce(explain_context.options, '{}'))) e;
    get diagnostics found_rows = row_count;
    perform memoryd.audit_read(
        coalesce(explain_context.user_id, caller.user_id), explain_context.agent_id, 'explain_context',
        found_rows::integer, memoryd.ms_since(began));
end
$$;
comment on function public.explain_context(text, text, uuid, jsonb) is
    'Why the context of a message is as it is: the patterns that it shows, what was searched, what was found '
    'with scores and trust, and what was left out and why. options: as of build_context().';
