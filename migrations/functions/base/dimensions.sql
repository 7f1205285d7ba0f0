-- How many dimensions the embeddings have: those of the model that recall uses. `memoryd reembed` changes it.
create or replace function memoryd.dimensions() returns integer
language sql stable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$ select (s.value #>> '{}')::integer from memoryd.settings s where s.key = 'dimensions' $$;

-- dimensions(), read from the table that is searched: so it agrees with what the rest of the statement finds
-- there, also while the generations change places.
create or replace function memoryd.searched_dimensions() returns integer
language plpgsql stable parallel safe security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    return coalesce(
        (select vector_dims(e.embedding) from memoryd.entries e
         where e.code is not null order by e.scope limit 1),
        memoryd.dimensions());
end
$$;

-- The embedding where it can be compared with those in the database; else null, and words alone decide. For
-- embeddings that a daemon made in the moment in which the model was changed.
create or replace function memoryd.comparable(p_embedding vector) returns vector
language sql stable parallel safe
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$ select case when vector_dims(p_embedding) = memoryd.searched_dimensions() then p_embedding end $$;

-- An embedding that a writer gives: refused when it cannot be compared with the others. One that was given
-- for an earlier model stays in its row. The arguments: the column, and the source.
create or replace function memoryd.check_embedding() returns trigger
language plpgsql security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    given vector;
    before vector;
    home bigint;
begin
    if tg_argv[0] = 'dense_embedding' then
        given := new.dense_embedding;
        if tg_op = 'UPDATE' then
            before := old.dense_embedding;
        end if;
    else
        given := new.embedding;
        if tg_op = 'UPDATE' then
            before := old.embedding;
        end if;
    end if;
    if given is null or given is not distinct from before then
        return new;
    end if;
    if vector_dims(given) <> memoryd.dimensions() then
        raise exception 'expected % dimensions, not %', memoryd.dimensions(), vector_dims(given)
            using errcode = 'data_exception', schema = tg_table_schema, table = tg_table_name,
                  column = tg_argv[0],
                  hint = 'Embed with the model that memoryd uses now (memoryd reembed --status names it), '
                         'or give none: memoryd embeds the text itself.';
    end if;
    if tg_op = 'UPDATE' then
        if tg_argv[1] = 'conversation' then
            home := memoryd.message_scope(old.scope, old.user_id, old.chat_id, old.access_level);
        else
            home := old.scope;
        end if;
        update memoryd.entries e set given_outdated = false
        where e.scope = home and e.id = old.id and e.source = tg_argv[1] and e.given_outdated;
        update memoryd.unindexed u set recompute = false
        where u.scope = home and u.id = old.id and u.source = tg_argv[1] and u.recompute;
    end if;
    return new;
end
$$;
