-- The options of recall and of contexts: declared once, checked, and made into what a search is asked for.

-- Which of the known names a name is most like: the one with which it has the most pairs of letters in
-- common; null if it is like none.
create or replace function memoryd.nearest_name(p_name text, p_known text[]) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    with pairs as (
        select n.name, substr(n.name, start, 2) as pair
        from unnest(left(lower(p_name), 60) || p_known) as n(name)
        cross join lateral generate_series(1, length(n.name) - 1) start
    ), alike as (
        select k.name,
               (select count(distinct a.pair) from pairs a join pairs b using (pair)
                where a.name = left(lower(p_name), 60) and b.name = k.name)
                   * 2.0 / greatest(1, length(left(p_name, 60)) + length(k.name) - 2) as part
        from unnest(p_known) as k(name)
    )
    select a.name from alike a where a.part >= 0.4 order by a.part desc, a.name limit 1
$$;

-- The options, one a row. What SQL accepts comes from here, and the commands, the tools of MCP, both clients
-- and the documents are tested against it.
--   kind      what a value is: see option_fits(). lowest, highest: the bounds of a number
--   recall    of recall(), explain_recall() and requests of kind recall
--   context   of build_context(), explain_context() and requests of kind context
--   argument  the functions have an argument of this name: so it is an option of a request alone
create or replace function memoryd.options()
returns table (name text, kind text, lowest integer, highest integer, recall boolean, context boolean,
               argument boolean, hint text)
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    values
        ('match_count', 'whole', 0, 2147483647, true, false, true,
         'Give how many results you want, a whole number, 0 or more.'),
        ('sources', 'names', null, null, true, false, true,
         'Give an array of names, such as ["memory", "insight"].'),
        ('filter', 'object', null, null, true, false, true,
         'Give an object that the metadata contain, such as {"kind": "fact"}.'),
        ('project', 'text', null, null, true, true, false,
         'Name the current project as the metadata of rows do, or leave it out.'),
        ('min_score', 'number', 0, 1, true, false, false, 'Give a score from 0 to 1, such as 0.35.'),
        ('relevant_only', 'flag', null, null, true, false, false,
         'Give true, to leave out what does not belong to the question, or false.'),
        ('exclude_session', 'uuid', null, null, true, true, false,
         'Give the id of a conversation (session_id).'),
        ('exclude_last', 'whole', 1, 2147483647, true, true, false,
         'Give how many of the newest messages of exclude_session to leave out, 1 or more.'),
        ('since', 'time', null, null, true, false, false,
         'Give a time, such as "2026-03-01" or "2026-03-01T09:30:00Z".'),
        ('until', 'time', null, null, true, false, false,
         'Give a time, such as "2026-03-01" or "2026-03-01T09:30:00Z".'),
        ('as_of', 'time', null, null, true, false, false,
         'Give a time, such as "2026-03-01" or "2026-03-01T09:30:00Z".'),
        ('asked_at', 'time', null, null, true, true, false,
         'Give a time, such as "2026-03-01" or "2026-03-01T09:30:00Z".'),
        ('words', 'whole', 100, 10000, false, true, false,
         'Give how many words the context may have, a whole number from 100 to 10000.'),
        ('roles', 'names', null, null, true, false, false,
         'Give an array of roles: user, assistant, system, tool.'),
        ('speakers', 'names', null, null, true, false, false, 'Give an array of at most 100 names.'),
        ('around', 'whole', 0, 10, true, false, false,
         'Give how many messages before and after to show, a whole number from 0 to 10.')
$$;

-- Whether a value is of this kind. A value of null is not asked about.
create or replace function memoryd.option_fits(
    p_kind text, p_lowest integer, p_highest integer, p_value jsonb) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    type constant text := jsonb_typeof(p_value);
    given constant text := p_value #>> '{}';
begin
    return case p_kind
        when 'whole' then type in ('number', 'string') and given ~ '^\d{1,10}$'
                          and given::bigint between p_lowest and p_highest
        when 'number' then type = 'number' and given::numeric between p_lowest and p_highest
        when 'flag' then type = 'boolean'
        when 'names' then type = 'array'
                          and not jsonb_path_exists(p_value, 'strict $[*] ? (@.type() != "string")')
                          and jsonb_array_length(p_value) <= 100
        when 'object' then type = 'object'
        when 'text' then type = 'string' and given ~ '\S'
        when 'uuid' then type = 'string' and pg_input_is_valid(given, 'uuid')
        when 'time' then type = 'string' and pg_input_is_valid(given, 'timestamptz') end;
end
$$;

-- What is wrong with options, and what is allowed; null where nothing is. An option that is null is not
-- given. p_kind: recall or context, or another kind of request, which takes none. p_call: the function that
-- is called with them (null: they are those of a request).
create or replace function memoryd.fault_of_options(
    p_kind text, p_options jsonb, p_call text default null, out fault text, out hint text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    known text[];
    wrong record;
begin
    if jsonb_typeof(p_options) <> 'object' or p_options = '{}' then
        return;
    end if;
    known := array(
        select o.name from memoryd.options() o
        where (p_kind = 'recall' and o.recall or p_kind = 'context' and o.context)
          and (p_call is null or not o.argument));
    select k.name into wrong from jsonb_object_keys(p_options) k(name)
    where k.name <> all (known) order by k.name limit 1;
    if found then
        fault := 'unknown option '
            || coalesce(nullif(memoryd.one_line(left(wrong.name, 60)), ''), '""');
        hint := coalesce('Did you mean ' || memoryd.nearest_name(wrong.name, known) || '? ', '')
            || case when known = '{}' then 'A request of kind ' || p_kind || ' takes no options.'
                    else 'Options of ' || coalesce(p_call || '()', 'a ' || p_kind) || ': '
                        || array_to_string(known, ', ') || '.' end;
        return;
    end if;
    select o.name, g.value, o.hint into wrong
    from memoryd.options() o
    join jsonb_each(p_options) as g(name, value) using (name)
    where g.value <> 'null' and not memoryd.option_fits(o.kind, o.lowest, o.highest, g.value)
    order by array_position(known, o.name)
    limit 1;
    if found then
        fault := wrong.name || ' is ' || left(wrong.value::text, 100);
        hint := wrong.hint;
        return;
    end if;
    select l.kind, s.name, l.names into wrong
    from (values ('source', memoryd.source_names()), ('role', array['user', 'assistant', 'system', 'tool']))
         as l(kind, names)
    cross join lateral jsonb_array_elements_text(nullif(p_options -> (l.kind || 's'), 'null')) as s(name)
    where s.name <> all (l.names)
    limit 1;
    if found then
        fault := 'unknown ' || wrong.kind || ' ' || memoryd.one_line(left(wrong.name, 60));
        hint := initcap(wrong.kind) || 's: ' || array_to_string(wrong.names, ', ') || '.';
    elsif p_options ->> 'exclude_last' is not null and p_options ->> 'exclude_session' is null then
        fault := 'exclude_last is given without exclude_session';
        hint := 'Give the id of a conversation (session_id).';
    end if;
end
$$;

-- Raises an error unless these are options of the function p_call. Null: none.
create or replace function memoryd.check_options(p_kind text, p_call text, p_options jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_options = '{}' then
        return;
    end if;
    if jsonb_typeof(p_options) <> 'object' then
        perform memoryd.refuse('options are of type ' || jsonb_typeof(p_options),
                               'Give an object, such as {"exclude_session": "..."}.');
    end if;
    perform memoryd.refuse(f.fault, f.hint)
    from memoryd.fault_of_options(p_kind, coalesce(p_options, '{}'), p_call) f
    where f.fault is not null;
end
$$;

-- The conditions that these options are. A project other than that of the transaction is refused: the
-- policies of shared rows follow the transaction's. With exclude_last the newest messages of
-- a conversation are left out, of those that the caller can read; else all of it.
create or replace function memoryd.conditions_of(p_options jsonb) returns memoryd.conditions
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    here constant text := memoryd.current_project();
    made memoryd.conditions;
begin
    made.project := coalesce(p_options ->> 'project', here);
    if made.project <> here then
        raise exception 'project is %, and memoryd.project of this transaction is %',
                        quote_literal(left(made.project, 60)), quote_literal(left(here, 60))
            using errcode = 'invalid_parameter_value', hint = 'Give one of them.';
    end if;
    if p_options = '{}' then
        return made;
    end if;
    made.since := (p_options ->> 'since')::timestamptz;
    made.until := (p_options ->> 'until')::timestamptz;
    made.as_of := (p_options ->> 'as_of')::timestamptz;
    made.asked_at := (p_options ->> 'asked_at')::timestamptz;
    made.words := (p_options ->> 'words')::integer;
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
