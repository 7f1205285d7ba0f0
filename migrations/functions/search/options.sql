-- Options of a recall, as clients give them: checked, and made into the conditions that results must meet.

-- Which of the known names a name is most like: the one with which it has the most pairs of letters in
-- common; null if it is like none.
create or replace function memoryd.nearest_name(p_name text, p_known text[]) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    with pairs as (
        select n.name, substr(n.name, place, 2) as pair
        from unnest(left(lower(p_name), 60) || p_known) as n(name)
        cross join lateral generate_series(1, length(n.name) - 1) place
    ), alike as (
        select k.name,
               (select count(distinct a.pair) from pairs a join pairs b using (pair)
                where a.name = left(lower(p_name), 60) and b.name = k.name)
                   * 2.0 / greatest(1, length(left(p_name, 60)) + length(k.name) - 2) as part
        from unnest(p_known) as k(name)
    )
    select a.name from alike a where a.part >= 0.4 order by a.part desc, a.name limit 1
$$;

-- The options that are known: of recall_with(), build_context_with() and explain_context_with(), and of
-- requests of each kind. A request has no arguments, so more is an option there.
create or replace function memoryd.known_options(p_kind text) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select case p_kind
        when 'recall' then '{match_count,sources,filter,context,min_score,exclude_session,exclude_last,'
                           'since,until,as_of,roles,speakers,around}'
        when 'recall_with' then '{context,min_score,exclude_session,exclude_last,since,until,as_of,roles,'
                                'speakers,around}'
        when 'context' then '{context,exclude_session,exclude_last}'
        when 'build_context_with' then '{context,exclude_session,exclude_last}'
        when 'explain_context_with' then '{context,exclude_session,exclude_last}'
        else '{}' end::text[]
$$;

-- Whether a value is one that this option can have. A value of null is not asked about.
create or replace function memoryd.option_fits(p_name text, p_value jsonb) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    kind constant text := jsonb_typeof(p_value);
    given constant text := p_value #>> '{}';
begin
    return case
        when p_name in ('match_count', 'exclude_last', 'around') then
            kind in ('number', 'string') and given ~ '^\d{1,10}$'
            and given::bigint <= case when p_name = 'around' then 10 else 2147483647 end
            and (given::bigint > 0 or p_name <> 'exclude_last')
        when p_name in ('sources', 'roles', 'speakers') then
            kind = 'array' and not jsonb_path_exists(p_value, 'strict $[*] ? (@.type() != "string")')
            and jsonb_array_length(p_value) between 0 and 100
        when p_name = 'filter' then kind = 'object'
        when p_name = 'min_score' then kind = 'number' and p_value::numeric between 0 and 1
        when p_name = 'context' then kind = 'string' and given ~ '\S'
        when p_name = 'exclude_session' then kind = 'string' and pg_input_is_valid(given, 'uuid')
        when p_name in ('since', 'until', 'as_of')
            then kind = 'string' and pg_input_is_valid(given, 'timestamptz')
        else true end;
end
$$;

-- What a value of this option is like.
create or replace function memoryd.option_hint(p_name text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select case p_name
        when 'match_count' then 'Give how many results you want, a whole number, 0 or more.'
        when 'sources' then 'Give an array of names, such as ["memory", "insight"].'
        when 'filter' then 'Give an object that the metadata contain, such as {"kind": "fact"}.'
        when 'min_score' then 'Give a score from 0 to 1, such as 0.35.'
        when 'context' then 'Name the current context as the metadata of rows do, or leave it out.'
        when 'exclude_session' then 'Give the id of a conversation (session_id).'
        when 'exclude_last' then
            'Give how many of the newest messages of exclude_session to leave out, 1 or more.'
        when 'around' then 'Give how many messages before and after to show, a whole number from 0 to 10.'
        when 'roles' then 'Give an array of roles: user, assistant, system, tool.'
        when 'speakers' then 'Give an array of at most 100 names.'
        else 'Give a time, such as "2026-03-01" or "2026-03-01T09:30:00Z".' end
$$;

-- What is wrong with options, and what is allowed; null where nothing is. An option that is null is not
-- given. p_kind: see known_options().
create or replace function memoryd.fault_of_options(
    p_kind text, p_options jsonb, out fault text, out hint text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    known constant text[] := memoryd.known_options(p_kind);
    lists constant jsonb := jsonb_build_object('source', memoryd.sources(),
                                               'role', array['user', 'assistant', 'system', 'tool']);
    wrong record;
begin
    if jsonb_typeof(p_options) <> 'object' or p_options = '{}' then
        return;
    end if;
    select k.name into wrong from jsonb_object_keys(p_options) k(name)
    where k.name <> all (known) order by k.name limit 1;
    if found then
        fault := 'unknown option '
            || coalesce(nullif(memoryd.one_line(left(wrong.name, 60)), ''), '""');
        hint := coalesce('Did you mean ' || memoryd.nearest_name(wrong.name, known) || '? ', '')
            || case when p_kind in ('recall_with', 'build_context_with', 'explain_context_with')
                    then 'Options of ' || p_kind || '(): ' || array_to_string(known, ', ') || '.'
                    when known = '{}' then 'A request of kind ' || p_kind || ' takes no options.'
                    else 'Options of a ' || p_kind || ': ' || array_to_string(known, ', ') || '.' end;
        return;
    end if;
    select o.name, o.value into wrong
    from unnest(known) with ordinality as k(name, place)
    join jsonb_each(p_options) as o(name, value) using (name)
    where o.value <> 'null' and not memoryd.option_fits(o.name, o.value)
    order by k.place limit 1;
    if found then
        fault := wrong.name || ' is ' || left(wrong.value::text, 100);
        hint := memoryd.option_hint(wrong.name);
        return;
    end if;
    select l.kind, s.name, l.names into wrong
    from jsonb_each(lists) as l(kind, names)
    cross join lateral jsonb_array_elements_text(nullif(p_options -> (l.kind || 's'), 'null')) as s(name)
    where not l.names ? s.name
    limit 1;
    if found then
        fault := 'unknown ' || wrong.kind || ' ' || memoryd.one_line(left(wrong.name, 60));
        hint := initcap(wrong.kind) || 's: '
            || (select string_agg(n, ', ') from jsonb_array_elements_text(wrong.names) n) || '.';
    elsif p_options ->> 'exclude_last' is not null and p_options ->> 'exclude_session' is null then
        fault := 'exclude_last is given without exclude_session';
        hint := memoryd.option_hint('exclude_session');
    end if;
end
$$;

-- Raises an error unless these are options of the function p_call. Null: none.
create or replace function memoryd.check_options(p_call text, p_options jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if jsonb_typeof(p_options) <> 'object' then
        perform memoryd.refuse('options are of type ' || jsonb_typeof(p_options),
                               'Give an object, such as {"exclude_session": "..."}.');
    end if;
    perform memoryd.refuse(f.fault, f.hint)
    from memoryd.fault_of_options(p_call, coalesce(p_options, '{}')) f
    where f.fault is not null;
end
$$;

-- The conditions that these options are; null where there are none. With exclude_last the newest messages of
-- a conversation are left out, of those that the caller can read; else all of it.
create or replace function memoryd.conditions_of(p_options jsonb) returns memoryd.conditions
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    made memoryd.conditions;
begin
    made.since := (p_options ->> 'since')::timestamptz;
    made.until := (p_options ->> 'until')::timestamptz;
    made.as_of := (p_options ->> 'as_of')::timestamptz;
    if jsonb_typeof(p_options -> 'roles') = 'array' then
        made.roles := array(select jsonb_array_elements_text(p_options -> 'roles'));
    end if;
    if jsonb_typeof(p_options -> 'speakers') = 'array' then
        made.speakers := array(select lower(s) from jsonb_array_elements_text(p_options -> 'speakers') s);
    end if;
    made.left_out_session := (p_options ->> 'exclude_session')::uuid;
    if made.left_out_session is not null then
        made.left_out_from := -2147483648;
        if p_options ->> 'exclude_last' is not null then
            made.left_out_from := (
                select min(t.message_index)
                from (select m.message_index from public.conversation_messages m
                      where m.session_id = made.left_out_session
                      order by m.message_index desc
                      limit (p_options ->> 'exclude_last')::integer) t);
        end if;
    end if;
    return made;
end
$$;
