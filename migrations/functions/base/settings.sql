-- Reads memoryd.settings: numbers, the dimensions of embeddings, and what a cosine of the model says.
-- Unrelated texts have a cosine of 0.03 with one model, of 0.75 with another; a calibrated similarity is 0
-- for these and 1 for the same text, so every threshold has one value for all models. The daemon measures
-- background and unit (memory/calibration.py); of the local model, by which the thresholds were found, they
-- are 0 and 1.

create or replace function memoryd.setting_integer(p_key text) returns integer
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select (value #>> '{}')::integer from memoryd.settings where key = p_key $$;

-- Whose memories are those that an application writes without naming an agent.
create or replace function memoryd.app_agent_id() returns text
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select coalesce((select s.value #>> '{}' from memoryd.settings s where s.key = 'app_agent_id'), 'app')
$$;

-- Of the model that recall uses: the mean cosine of unrelated texts, and what the same text has above it.
create or replace function memoryd.calibration(
    out background double precision, out unit double precision, out spread double precision)
language plpgsql stable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    select s.value ->> 'background', s.value ->> 'unit', s.value ->> 'spread' into background, unit, spread
    from memoryd.settings s where s.key = 'similarity';
    background := coalesce(background, 0);
    unit := coalesce(unit, 1);
end
$$;

-- The calibrated similarity of a cosine, from -1 to 1. Null for NaN, the cosine of a vector that is all
-- zeros. Inlined.
create or replace function memoryd.calibrated(
    p_cosine double precision, p_background double precision, p_unit double precision)
returns double precision
language sql immutable parallel safe
return case when p_cosine <> 'NaN' then greatest(-1, least(1, (p_cosine - p_background) / p_unit)) end;

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
