-- Secret fields of metadata: their values are encrypted by those who write them, with a public key. The
-- private key is not in the database. See docs/secrets.md.

-- Whether a value has the form of an encrypted one: {"encrypted": "1.<id of the key>.<base64url>"}. Whether
-- it can be decrypted is not known here.
create or replace function memoryd.is_encrypted(p_value jsonb) returns boolean
language sql immutable parallel safe
return jsonb_typeof(p_value) = 'object' and p_value - 'encrypted' = '{}'
   and coalesce(p_value ->> 'encrypted' ~ '^1\.[0-9a-f]{16}\.[A-Za-z0-9_-]{64,}$' collate "C", false);

-- What the text of a JSON value matches if it may have one of these fields, or an encrypted value.
create or replace function memoryd.secret_pattern(p_fields text[]) returns text
language sql immutable parallel safe
return '"(' || array_to_string(p_fields || '{encrypted}', '|') || ')": ';

-- The values of secret fields at every depth, and encrypted values of any other field: their paths, fields
-- and values. Null is no secret. A name in capitals is the same name.
create or replace function memoryd.secret_values(p_json jsonb, p_fields text[])
returns table (path text[], field text, value jsonb)
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    with recursive walk (path, field, value, found) as (
        select '{}'::text[], null::text collate "C", p_json, false
        union all
        select w.path || c.step, c.field, c.value,
               coalesce(c.field = any(p_fields), false)
                   or (c.field is not null and memoryd.is_encrypted(c.value))
        from walk w
        cross join lateral (
            select e.key, lower(e.key collate "C"), e.value
            from jsonb_each(case when jsonb_typeof(w.value) = 'object' then w.value else '{}' end) e
            union all
            select (a.nth - 1)::text, null, a.value
            from jsonb_array_elements(case when jsonb_typeof(w.value) = 'array' then w.value else '[]' end)
                with ordinality as a(value, nth)
        ) as c(step, field, value)
        where not w.found and jsonb_typeof(c.value) <> 'null'
          and (jsonb_typeof(c.value) in ('object', 'array') or c.field = any(p_fields))
    )
    select w.path, w.field, w.value from walk w where w.found
$$;

-- The first secret field in p_new whose value is not encrypted, and was not there before either: a row that
-- was written before its field was secret can still be changed elsewhere.
create or replace function memoryd.plain_secret(p_new jsonb, p_old jsonb, p_fields text[]) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select n.field
    from (select v.field, v.value from memoryd.secret_values(p_new, p_fields) v
          where not memoryd.is_encrypted(v.value)
          except
          select v.field, v.value from memoryd.secret_values(p_old, p_fields) v) n
    order by n.field
    limit 1
$$;

-- Refuses a row with a secret that is not encrypted. Before the row is stored, so that the secret is written
-- nowhere, and not into the write-ahead log either. The argument of the trigger is the column.
create or replace function memoryd.check_secrets() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    setting constant text := (select s.value #>> '{}' from memoryd.settings s where s.key = 'secret_fields');
    fields text[];
    given jsonb;
    before jsonb;
    plain text;
begin
    if setting is null or setting = '' then
        return new;
    end if;
    fields := string_to_array(setting, '|');
    case tg_argv[0]
        when 'metadata' then given := new.metadata;
        when 'group_metadata' then given := new.group_metadata;
        when 'session_data' then given := new.session_data;
        when 'input_data' then given := new.input_data;
        when 'output_data' then given := new.output_data;
    end case;
    if given::text !~* (memoryd.secret_pattern(fields) collate "C") then
        return new;
    end if;
    -- What is nested too deeply is refused first: to walk it would take long.
    perform memoryd.json_fits(tg_argv[0], given);
    if tg_op = 'UPDATE' then
        before := to_jsonb(old) -> tg_argv[0];
    end if;
    plain := memoryd.plain_secret(given, before, fields);
    if plain is not null then
        raise exception '% has the secret field % with a value that is not encrypted', tg_argv[0], plain
            using errcode = 'check_violation', table = tg_table_name, schema = tg_table_schema,
                  hint = format('Encrypt the value: memoryd secrets encrypt %s, or with the key that '
                                'secrets_key() returns, as docs/secrets.md shows.', plain);
    end if;
    return new;
end
$$;

-- The columns that have secret fields.
create or replace function memoryd.secret_columns() returns table (table_name text, column_name text)
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select v.* from (values
        ('agent_commands', 'metadata'), ('agent_execution_logs', 'input_data'),
        ('agent_execution_logs', 'output_data'), ('agent_memory', 'metadata'),
        ('agent_sessions', 'session_data'), ('chat_groups', 'group_metadata'),
        ('conversation_messages', 'metadata'), ('documents', 'metadata'), ('memory_chunks', 'metadata')) v
$$;

-- All values of secret fields, and all encrypted ones: where, whose, and the key, null of a plain value.
create or replace function memoryd.secrets_stored()
returns table (in_column text, id uuid, user_id uuid, path text[], field text, value text, key_id text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    fields constant text[] := coalesce((
        select string_to_array(s.value #>> '{}', '|') from memoryd.settings s where s.key = 'secret_fields'),
        '{}');
    c record;
begin
    for c in
        select format('%s.%s', x.table_name, x.column_name) as shown, x.table_name, x.column_name,
               exists (select from pg_attribute a
                       where a.attrelid = format('public.%I', x.table_name)::regclass
                         and a.attname = 'user_id' and not a.attisdropped) as has_user
        from memoryd.secret_columns() x
    loop
        return query execute format(
            'select %L, t.id, %s, v.path, v.field, v.value::text, '
            'case when memoryd.is_encrypted(v.value) '
            'then split_part(v.value ->> ''encrypted'', ''.'', 2) end '
            'from public.%I t cross join lateral memoryd.secret_values(t.%I, $1) v '
            'where t.%I::text ~* (memoryd.secret_pattern($1) collate "C")',
            c.shown, case when c.has_user then 't.user_id' else 'null::uuid' end,
            c.table_name, c.column_name, c.column_name)
        using fields;
    end loop;
    -- A memory whose section a person deleted from the replica may come back.
    return query
        select 'memoryd.replica_buried.row', b.row_id, b.user_id, array['metadata'] || v.path, v.field,
               v.value::text,
               case when memoryd.is_encrypted(v.value) then split_part(v.value ->> 'encrypted', '.', 2) end
        from memoryd.replica_buried b
        cross join lateral memoryd.secret_values(b.row -> 'metadata', fields) v
        where b.source = 'memory';
end
$$;

-- Writes one value instead of another; whether that was still there.
create or replace function memoryd.write_secret(
    p_column text, p_id uuid, p_path text[], p_value jsonb, p_made jsonb
) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    written integer;
begin
    if p_column = 'memoryd.replica_buried.row' then
        update memoryd.replica_buried b set row = jsonb_set(b.row, p_path, p_made)
        where b.source = 'memory' and b.row_id = p_id and b.row #> p_path = p_value;
    else
        execute format(
            'update public.%1$I t set %2$I = jsonb_set(t.%2$I, $2, $4) where t.id = $1 and t.%2$I #> $2 = $3',
            split_part(p_column, '.', 1), split_part(p_column, '.', 2))
        using p_id, p_path, p_value, p_made;
    end if;
    get diagnostics written = row_count;
    return written = 1;
end
$$;

create or replace function public.secrets_key()
returns table (key_id text, public_key text, suite text, fields text[])
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select k.value ->> 'key_id', k.value ->> 'public_key', k.value ->> 'suite',
           coalesce((select string_to_array(nullif(f.value #>> '{}', ''), '|') from memoryd.settings f
                     where f.key = 'secret_fields'), '{}')
    from memoryd.settings k where k.key = 'secrets_key'
$$;
comment on function public.secrets_key() is
    'The public key to encrypt values of secret fields with, its id, the suite of HPKE (RFC 9180), and the '
    'names of the secret fields. No row where there is no key.';
