-- The options of recall and of contexts: declared once, checked, and turned into the request of a search.

-- The options, one a row: the only place where they are declared. The commands, the tools of MCP and the page
-- of recall read this table (daemon/db/migration_files.py); the options of both clients are written from it
-- (`python -m docs.write_options`). A condition or a part of a request has the name of its option.
--   kind       what a value is: see fault_of_options(). A flag leaves out what explain_recall() shows.
--   lowest, highest   the bounds of a number
--   recall     of recall(), explain_recall() and requests of kind recall
--   context    of build_context(), explain_context() and requests of kind context
--   argument   the functions have an argument of this name, so only a request has the option
--   in_prompt  the value in the clients' prompt() unless given
--   hint       the hint of the error for a wrong value
--   help       what it does
create or replace function memoryd.options()
returns table (name text, kind text, lowest integer, highest integer, recall boolean, context boolean,
               argument boolean, in_prompt jsonb, hint text, help text)
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    values
        ('match_count', 'whole', 0, 2147483647, true, false, true, null::jsonb,
         'Give how many results you want, a whole number, 0 or more.',
         'How many results at most, the best first.'),
        ('sources', 'sources', null, null, true, false, true, null,
         'Give an array of names, such as ["memory", "insight"].',
         'What is searched; everything unless given.'),
        ('filter', 'object', null, null, true, false, true, null,
         'Give an object that the metadata contain, such as {"kind": "fact"}.',
         'What the metadata must contain.'),
        ('project', 'text', null, null, true, true, false, null,
         'Name the current project as the metadata of rows do, or leave it out.',
         'The current project, channel or group chat; rows of other ones are left out.'),
        ('project_only', 'flag', null, null, false, true, false, null,
         'Give true, to leave out what does not name the current project, or false.',
         'Of other sources than memories only rows that name the current project.'),
        ('exclude', 'names', null, null, false, true, false, null,
         'Give an array of at most 100 ids.',
         'Leave out the rows with these ids, such as those that were shown before.'),
        ('min_score', 'number', 0, 1, true, false, false, null,
         'Give a score from 0 to 1, such as 0.35.',
         'Leave out results with a lower score, 0 to 1; 0.35 removes most that do not belong.'),
        ('relevant_only', 'flag', null, null, true, false, false, 'true',
         'Give true, to leave out what does not belong to the question, or false.',
         'Leave out results that do not belong to the question, so there may be none.'),
        ('exclude_session', 'uuid', null, null, true, true, false, null,
         'Give the id of a conversation (session_id).',
         'Leave out this conversation, such as the current one.'),
        ('exclude_last', 'whole', 1, 2147483647, true, true, false, null,
         'Give how many of the newest messages of exclude_session to leave out, 1 or more.',
         'Leave out only this number of the newest messages of that conversation.'),
        ('since', 'time', null, null, true, false, false, null,
         'Give a time, such as "2026-03-01" or "2026-03-01T09:30:00Z".',
         'Only what was written since this time.'),
        ('until', 'time', null, null, true, false, false, null,
         'Give a time, such as "2026-03-01" or "2026-03-01T09:30:00Z".',
         'Only what was written before this time.'),
        ('as_of', 'time', null, null, true, false, false, null,
         'Give a time, such as "2026-03-01" or "2026-03-01T09:30:00Z".',
         'What was true at this time, also if it was replaced since.'),
        ('asked_at', 'time', null, null, true, true, false, null,
         'Give a time, such as "2026-03-01" or "2026-03-01T09:30:00Z".',
         'The time of the question, to which "last week" refers; now unless given.'),
        ('words', 'whole', 100, 10000, false, true, false, null,
         'Give how many words the context may have, a whole number from 100 to 10000.',
         'How many words at most, 100 to 10,000; 500, unless memoryd is set otherwise.'),
        ('roles', 'roles', null, null, true, false, false, null,
         'Give an array of roles: user, assistant, system, tool.',
         'From conversations only messages of these roles.'),
        ('speakers', 'names', null, null, true, false, false, null, 'Give an array of at most 100 names.',
         'From conversations only messages of these speakers.'),
        ('around', 'whole', 0, 10, true, false, false, '2',
         'Give how many messages before and after to show, a whole number from 0 to 10.',
         'Show each message with this number of messages before and after it, 0 to 10.'),
        ('profile', 'whole', 0, 10000, true, true, false, '60',
         'Give how many words of facts about the user to show first, a whole number from 0 to 10000.',
         'Begin with facts and preferences of the user, newest first, in at most this number of words.')
$$;

-- The fault of options, and what is allowed instead; null if they have no fault. A null option counts as not
-- given. p_kind: recall or context, or another kind of request, which has no options. p_call: the function
-- that gets the options (null: they belong to a request).
create or replace function memoryd.fault_of_options(
    p_kind text, p_options jsonb, p_call text default null, out fault text, out hint text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    known text[];
    wrong record;
begin
    if jsonb_typeof(p_options) <> 'object' and p_call is not null then
        fault := 'options are of type ' || jsonb_typeof(p_options);
        hint := 'Give an object, such as {"exclude_session": "..."}.';
    end if;
    if jsonb_typeof(p_options) is distinct from 'object' or p_options = '{}' then
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
        -- The known name with which it has the most pairs of letters in common.
        hint := coalesce('Did you mean ' || (
            select k.name
            from (select n.name, (
                      select count(distinct substr(n.name, at, 2))
                      from generate_series(1, length(n.name) - 1) at
                      where strpos(lower(left(wrong.name, 60)), substr(n.name, at, 2)) > 0) * 2.0
                      / greatest(1, length(left(wrong.name, 60)) + length(n.name) - 2) as part
                  from unnest(known) as n(name)) k
            where k.part >= 0.4 order by k.part desc, k.name limit 1) || '? ', '')
            || case when known = '{}' then 'A request of kind ' || p_kind || ' takes no options.'
                    else 'Options of ' || coalesce(p_call || '()', 'a ' || p_kind) || ': '
                        || array_to_string(known, ', ') || '.' end;
        return;
    end if;
    select o.name, g.value, o.hint into wrong
    from memoryd.options() o
    join jsonb_each(p_options) as g(name, value) using (name)
    cross join lateral (select jsonb_typeof(g.value) as type, g.value #>> '{}' as text) v
    where v.type <> 'null' and not case o.kind
        when 'whole' then v.type in ('number', 'string') and case
            when length(v.text) between 1 and 10 and translate(v.text, '0123456789', '') = ''
            then v.text::bigint between o.lowest and o.highest else false end
        when 'number' then case when v.type = 'number'
            then v.text::numeric between o.lowest and o.highest else false end
        when 'flag' then v.type = 'boolean'
        when 'object' then v.type = 'object'
        when 'text' then v.type = 'string' and not memoryd.is_blank(v.text)
        when 'uuid' then v.type = 'string' and pg_input_is_valid(v.text, 'uuid')
        when 'time' then v.type = 'string' and pg_input_is_valid(v.text, 'timestamptz')
        else case when v.type = 'array' then jsonb_array_length(g.value) <= 100
                 and not jsonb_path_exists(g.value, 'strict $[*] ? (@.type() != "string")')
             else false end end
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
    made := jsonb_populate_record(made, p_options);
    made.project := coalesce(made.project, here);
    if made.speakers is not null then
        made.speakers := array(select lower(s) from unnest(made.speakers) s);
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

-- Refuses a command whose options for its context (context_options of the metadata) are none of
-- build_context().
create or replace function memoryd.check_context_options() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.refuse(f.fault, f.hint)
    from memoryd.fault_of_options('context', case
        -- A value that is not an object would become an array when it is joined to one.
        when jsonb_typeof(new.metadata -> 'context_options') = 'object'
            then jsonb_build_object('exclude_session', new.session_id) || (new.metadata -> 'context_options')
        else new.metadata -> 'context_options' end, 'build_context') f
    where f.fault is not null;
    return new;
end
$$;
