-- Memories by their keys: those whose key begins with a text, filtered, and ranked by a question.
--
-- A key is looked up with (scope, agent_id, key), the columns of its index. All of it runs with the caller's
-- rights but the ranking, which is memoryd.find()'s.

-- Whether {"$gt": 3} is a comparison: an object whose names all begin with $.
create or replace function memoryd.is_comparison(p_filter jsonb) returns boolean
language sql immutable parallel safe
return jsonb_typeof(p_filter) = 'object' and p_filter <> '{}'
   and not jsonb_path_exists(p_filter, '$.keyvalue() ? (!(@.key starts with "$"))');

-- Whether a value compares so with another; null (the value is missing) is equal to JSON's null. Only numbers
-- are more or less than numbers, and texts, by their bytes, than texts.
create or replace function memoryd.compares(p_value jsonb, p_operator text, p_with jsonb) returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    order_by integer;
begin
    if p_operator in ('$eq', '$ne') then
        return (coalesce(p_value, 'null') = p_with) = (p_operator = '$eq');
    elsif p_operator not in ('$gt', '$gte', '$lt', '$lte') then
        raise exception 'unknown operator %', quote_literal(left(p_operator, 60))
            using errcode = 'invalid_parameter_value', hint = 'Operators: $eq, $ne, $gt, $gte, $lt, $lte.';
    elsif jsonb_typeof(p_value) is distinct from jsonb_typeof(p_with) then
        return false;
    elsif jsonb_typeof(p_value) = 'number' then
        order_by := sign((p_value #>> '{}')::numeric - (p_with #>> '{}')::numeric);
    elsif jsonb_typeof(p_value) = 'string' then
        order_by := bttextcmp((p_value #>> '{}') collate "C", (p_with #>> '{}') collate "C");
    else
        return false;
    end if;
    return case p_operator when '$gt' then order_by > 0 when '$gte' then order_by >= 0
                           when '$lt' then order_by < 0 else order_by <= 0 end;
end
$$;

-- Whether metadata meet a filter: {"name": value} is equal, {"name": {"$gt": 3}} compares, and
-- {"name": {"inner": ...}} asks the same of what is in it.
create or replace function memoryd.meets_filter(p_value jsonb, p_filter jsonb) returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    each record;
begin
    for each in select f.key, f.value, p_value -> f.key as has from jsonb_each(p_filter) f loop
        if memoryd.is_comparison(each.value) then
            if exists (select from jsonb_each(each.value) o
                       where not memoryd.compares(each.has, o.key, o.value)) then
                return false;
            end if;
        elsif jsonb_typeof(each.value) = 'object' and each.value <> '{}' then
            if jsonb_typeof(each.has) is distinct from 'object'
               or not memoryd.meets_filter(each.has, each.value) then
                return false;
            end if;
        elsif coalesce(each.has, 'null') <> each.value then
            return false;
        end if;
    end loop;
    return true;
end
$$;

-- These memories, best first, with their scores, as recall() has them, and 0 where one shares nothing with
-- the question and is linked to none that does. Up to 5,000 all are compared. Of more than these only what
-- the search of the agent's whole memory finds is returned.
create or replace function memoryd.rank_keys(p_request memoryd.search_request, p_ids uuid[])
returns table (id uuid, score double precision)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    asked memoryd.search_request := p_request;
    exact constant boolean := cardinality(p_ids) <= 5000;
begin
    asked.count := greatest(4000, cardinality(p_ids));
    asked.ids := case when exact then p_ids end;
    return query
    with found as materialized (
        select b.id, b.score, row_number() over () as rank
        from memoryd.best_rows(asked, array(select f from memoryd.find(asked) f)) b
    )
    select i.id, coalesce(f.score, 0)
    from unnest(p_ids) with ordinality as i(id, nth)
    left join found f on f.id = i.id
    where exact or f.id is not null
    order by f.rank, i.nth;
end
$$;

-- The range of keys ends before the prefix with the greatest character that there is. What is marked
-- {"index": false} answers no question.
create or replace function public.search_keys(
    prefix text,
    query text default null,
    agent_id text default null,
    user_id uuid default null,
    filter jsonb default '{}',
    match_count integer default 10,
    match_offset integer default 0,
    query_embedding vector default null
) returns table (key text, id uuid, content text, score double precision, metadata jsonb,
                 created_at timestamptz, updated_at timestamptz, expires_at timestamptz)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    began constant timestamptz := clock_timestamp();
    whose constant uuid := coalesce(search_keys.user_id, memoryd.caller_id());
    agent constant text := coalesce(
        search_keys.agent_id, case when whose is not null then memoryd.app_agent_id() end);
    asked constant boolean :=
        not memoryd.is_blank(coalesce(search_keys.query, '')) or search_keys.query_embedding is not null;
    given constant jsonb := coalesce(search_keys.filter, '{}');
    whole_scope constant bigint := memoryd.scope_of(whose, agent);
    beyond constant text := search_keys.prefix || chr(1114111);
    fault text;
    ids uuid[];
    scores double precision[];
begin
    fault := case
        when search_keys.prefix is null then 'prefix is null'
        when agent is null then 'agent_id is null'
        when jsonb_typeof(given) <> 'object' then 'filter is of type ' || jsonb_typeof(given)
        when coalesce(search_keys.match_count, -1) < 0 then 'match_count is no number of results'
        when coalesce(search_keys.match_offset, -1) < 0 then 'match_offset is no number of results' end;
    if fault is not null then
        raise exception '%', fault
            using errcode = 'invalid_parameter_value',
                  hint = 'search_keys(''notes/'', ''question or null'', agent_id => ''...'').';
    end if;
    if memoryd.memory_is_off(whose) then
        return;
    end if;
    ids := array(
        select m.id
        from public.agent_memory m
        where m.scope = whole_scope and m.agent_id = agent
          and m.key >= search_keys.prefix collate "C" and m.key < beyond collate "C"
          and (m.expires_at is null or m.expires_at > now())
          and not (asked and m.metadata @> '{"index": false}')
          and (given = '{}' or memoryd.meets_filter(m.metadata, given))
        order by m.updated_at desc, m.key
        limit case when not asked then search_keys.match_count end
        offset case when asked then 0 else search_keys.match_offset end);
    if asked and ids <> '{}' then
        select coalesce(array_agg(r.id), '{}'), array_agg(r.score) into ids, scores
        from (select * from memoryd.rank_keys(
                  memoryd.recall_request(
                      'recall', search_keys.query, agent, whose, search_keys.query_embedding,
                      search_keys.match_count, '{memory}', '{}', '{}'), ids) k
              limit search_keys.match_count offset search_keys.match_offset) r;
    end if;
    perform memoryd.audit_read(whose, agent, 'search_keys', cardinality(ids), memoryd.ms_since(began));
    return query
    select m.key, m.id, m.content, scores[i.nth], m.metadata, m.created_at, m.updated_at, m.expires_at
    from unnest(ids) with ordinality as i(id, nth)
    join public.agent_memory m on m.id = i.id
    order by i.nth;
end
$$;
comment on function public.search_keys(text, text, text, uuid, jsonb, integer, integer, vector) is
    'Memories of an agent whose keys begin with a prefix, which meet a filter on their metadata ($eq, $ne, '
    '$gt, $gte, $lt, $lte): the newest first, or with a query the best. A prefix of up to 5,000 memories is '
    'ranked whole, however many others there are.';
