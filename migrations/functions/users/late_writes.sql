-- Triggers that drop what a daemon still writes about a user who was erased meanwhile, so that nothing of
-- the user is stored again.

-- Drops the embedding of a text that was erased within the last hour. Embeddings are stored only to save a
-- second call of the embedder: so while an erasure has the lock, the row is dropped, instead of waiting for
-- the erasure.
create or replace function memoryd.drop_erased() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    lock table memoryd.erased_texts in row share mode nowait;
    if exists (select from memoryd.erased_texts e
               where e.content_hash = new.content_hash and e.erased_at > now() - interval '1 hour') then
        return null;
    end if;
    return new;
exception when lock_not_available then
    return null;
end
$$;

-- Drops an insight of a running dream that was made of memories which do not exist any more. The user's
-- lock makes it wait for an erasure that is under way.
create or replace function memoryd.drop_dreamt() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.lock_shared(memoryd.user_lock(new.user_id));
    if exists (select from public.dream_sessions d where d.id = new.dream_id and d.status = 'running')
       and exists (select from unnest(new.source_memories) as s(id)
                   where not exists (select from public.agent_memory m where m.id = s.id)) then
        return null;
    end if;
    return new;
end
$$;
