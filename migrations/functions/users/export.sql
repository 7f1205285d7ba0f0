-- Export: all rows of a user, as JSON that an import puts back.

-- A user's rows of one table, as an export has them. Anchors come with what an import needs to show that
-- they are what was anchored: the salt of the leaf, and the memory that it was made of.
create or replace function memoryd.user_rows(p_user uuid, p_table text) returns setof jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set bytea_output = 'hex'
as $$
declare
    own constant text[] := memoryd.own_columns(p_table);
begin
    return query execute format(
        'select to_jsonb(r) from (select %s from public.%I t where %s order by %s) r',
        -- Answers repeat rows: the user's own, which are in the export, and others' that the user was shown.
        -- What others wrote into the team's knowledge is not named either: it may be erased.
        (select string_agg(
                    case when c = 'knowledge_ids'
                         then 'array(select i from unnest(t.knowledge_ids) i
                                     where not memoryd.names_others(array[i], $1)) as knowledge_ids'
                         else format('t.%I', c) end, ', ')
         from unnest(own) c where (p_table, c) <> ('memory_requests', 'result'))
            || case when p_table = 'memory_anchors' then $s$,
                   (select jsonb_build_object('salt', encode(l.salt, 'hex'), 'memory_id', l.memory_id)
                    from memoryd.trail_leaves l where l.anchor_id = t.id) as leaf$s$ else '' end,
        p_table,
        (select u.exported from memoryd.user_tables() u where u.name = p_table),
        (select string_agg(format('t.%I', c), ', ')
         from unnest(array['created_at', 'query_time', 'generated_at', 'id', 'user_id']) c
         where c = any(own)))
        using p_user;
end
$$;

-- A user's rows of all tables, by table. Stable, so that one snapshot serves all of them.
create or replace function memoryd.all_user_rows(p_user uuid) returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    tables jsonb := '{}';
    each text;
begin
    for each in select u.name from memoryd.user_tables() u loop
        tables := tables || jsonb_build_object(
            each, (select coalesce(jsonb_agg(r), '[]') from memoryd.user_rows(p_user, each) r));
    end loop;
    return tables;
exception when program_limit_exceeded then
    raise exception 'what is known about this user is too much for one value'
        using errcode = 'program_limit_exceeded',
              hint = 'Export it to a file: memoryd export ' || p_user || ' -o FILE.';
end
$$;

create or replace function public.export_user_memory(user_id uuid) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    began constant timestamptz := clock_timestamp();
    tables jsonb;
    rows integer;
begin
    perform memoryd.check_own(export_user_memory.user_id, 'export');
    tables := memoryd.all_user_rows(export_user_memory.user_id);
    select sum(jsonb_array_length(t.value)) into rows from jsonb_each(tables) t;
    perform memoryd.audit_read(
        export_user_memory.user_id, null, 'export', rows, memoryd.ms_since(began));
    return jsonb_build_object('format', 'memoryd-export', 'version', 1, 'user_id', export_user_memory.user_id,
                              'exported_at', now(), 'tables', tables);
end
$$;
comment on function public.export_user_memory(uuid) is
    'All that is kept about a user, as JSON that `memoryd import` puts back. Users export their own.';
