-- What a recall has brought is logged in memory_queries, as what contexts bring is: so it can be judged
-- (mark_useful), and what is used is known to be used.

-- Where an end user writes a retrieval, only the ids of their own memories and insights are kept: ids of
-- other users' rows and ids of no row are dropped alike. So no row of one user names a row of another, and a
-- row that one user has locked by judging it does not delay the other user's erasure.
create or replace function memoryd.keep_own_retrieved() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Lists that are too long are refused by their checks.
    if greatest(cardinality(new.retrieved_memory_ids), cardinality(new.relevance_scores),
                cardinality(new.insight_ids)) > 1000 then
        return new;
    end if;
    select coalesce(array_agg(r.id order by r.nth)
                        filter (where r.nth <= cardinality(new.retrieved_memory_ids)), '{}'),
           coalesce(array_agg(r.score order by r.nth)
                        filter (where r.nth <= cardinality(new.relevance_scores)), '{}')
    into new.retrieved_memory_ids, new.relevance_scores
    from unnest(new.retrieved_memory_ids, new.relevance_scores) with ordinality as r(id, score, nth)
    where exists (select from public.agent_memory m where m.id = r.id and m.user_id = new.user_id);
    new.insight_ids := array(
        select r.id from unnest(new.insight_ids) with ordinality as r(id, nth)
        where exists (select from public.dream_insights i where i.id = r.id and i.user_id = new.user_id)
        order by r.nth);
    return new;
end
$$;

-- With the caller's rights: behind a pooler the connection's last recall may have been somebody else's.
create or replace function public.last_recall() returns uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select q.id from public.memory_queries q
    where q.id = nullif(current_setting('memoryd.last_recall', true), '')::uuid
$$;
comment on function public.last_recall() is
    'The row of memory_queries that the last recall of this connection has written, for mark_useful(); '
    'null where the caller may not read it.';
