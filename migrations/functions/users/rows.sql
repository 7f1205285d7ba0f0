-- Which rows are a user's, beside memoryd.user_tables(). Exports and erasures use these definitions, also for
-- the jobs that an erasure takes from the daemons.

-- Ids of a user's rows that jobs, dead letters and executions may refer to. Without the requests to erase,
-- which must still be answered.
create or replace function memoryd.row_ids_of(p_user uuid) returns setof uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select c.id from public.agent_commands c where c.user_id = p_user
    union all
    select r.id from public.memory_requests r where r.user_id = p_user and r.kind <> 'erase'
    union all
    select s.id from public.conversation_sessions s where s.user_id = p_user
    union all
    select d.id from public.documents d where d.user_id = p_user
    union all
    select memoryd.searched_ids_of(p_user)
$$;

-- The columns of a table without those that memoryd computes from the others.
create or replace function memoryd.own_columns(p_table text) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array_agg(a.attname::text order by a.attnum)
    from pg_attribute a
    join pg_type t on t.oid = a.atttypid
    where a.attrelid = ('public.' || quote_ident(p_table))::regclass
      and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
      and t.typname not in ('vector', 'halfvec', 'sparsevec', 'tsvector')
      and (p_table, a.attname) not in (('agent_commands', 'context'), ('memory_chunks', 'sparse_embedding'))
$$;
