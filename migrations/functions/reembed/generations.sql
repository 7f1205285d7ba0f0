-- Generations of entries. memoryd.entries is the one that recall answers from. memoryd.spare_entries is
-- empty, or one that is being built for another embedding model, or the one before, kept for undo;
-- memoryd.settings says which ('spare': embedder, dimensions, state). While there is one, a trigger of
-- memoryd.entries writes every change of memoryd.entries into it too, in the same transaction, without the
-- embedding: so a row that is deleted or erased is in neither. `memoryd reembed` (plugins/reembed)
-- fills in the embeddings of its own model; then the tables change places by their names.

-- What of an entry is the same in both generations, as a list of columns: all but the embedding and what is
-- computed from it.
create or replace function memoryd.columns_in_common(p_prefix text default '') returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select string_agg(p_prefix || quote_ident(a.attname), ', ' order by a.attname)
    from pg_attribute a
    where a.attrelid = 'memoryd.entries'::regclass and a.attnum > 0 and not a.attisdropped
      and a.attgenerated = '' and a.attname not in ('embedding', 'given_outdated')
$$;

-- Writes the changes of a statement into the other generation, if there is one.
create or replace function memoryd.mirror_entries() returns trigger
language plpgsql security definer
set search_path = pg_catalog, :vector_schema, public, pg_temp
as $$
begin
    if tg_table_name <> 'entries' or not exists (select from memoryd.settings s where s.key = 'spare') then
        return null;
    end if;
    if tg_op = 'DELETE' then
        delete from memoryd.spare_entries s
        using old_rows o
        where s.scope = o.scope and s.id = o.id and s.source = o.source and s.passage = o.passage;
    elsif tg_op = 'INSERT' then
        execute format(
            'insert into memoryd.spare_entries (%s, given_outdated) select %s, true from new_rows n
             on conflict do nothing', memoryd.columns_in_common(), memoryd.columns_in_common('n.'));
    else
        -- What a row's text decides never changes by an update.
        update memoryd.spare_entries s
        set scope = n.scope, owner_id = n.owner_id, agent_id = n.agent_id, access_level = n.access_level,
            visibility_tags = n.visibility_tags, grants_metadata = n.grants_metadata,
            is_current = n.is_current, expires_at = n.expires_at, session_id = n.session_id,
            position = n.position, role = n.role, created_at = n.created_at, weight = n.weight,
            group_scope = n.group_scope
        from old_rows o
        join new_rows n on n.id = o.id and n.source = o.source and n.passage = o.passage
        where s.scope = o.scope and s.id = o.id and s.source = o.source and s.passage = o.passage;
    end if;
    return null;
end
$$;

-- Makes the spare generation one that is being built for this model, empty. Waits for those who write now, so
-- that every later change is written into it too.
create or replace function memoryd.begin_generation(
    p_embedder text, p_dimensions integer, p_instructions jsonb) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    lock table memoryd.entries, memoryd.spare_entries in share row exclusive mode;
    truncate memoryd.spare_entries;
    insert into memoryd.settings (key, value)
    values ('spare', jsonb_build_object(
        'embedder', p_embedder, 'dimensions', p_dimensions, 'instructions', p_instructions,
        'state', 'building', 'since', now()));
end
$$;

-- Deletes the spare generation.
create or replace function memoryd.drop_generation() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    name text;
begin
    lock table memoryd.entries in share row exclusive mode;
    delete from memoryd.settings s where s.key = 'spare';
    truncate memoryd.spare_entries;
    delete from memoryd.settings s where s.key = 'dense_index.spare_entries';
    for name in
        select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid
        where i.indrelid = 'memoryd.spare_entries'::regclass and c.relname like 'spare_entries_lists_%'
    loop
        execute format('drop index memoryd.%I', name);
    end loop;
end
$$;

-- Passages that lack an embedding in the spare generation, after this one in the order of the key, with the
-- text of their rows. passages: which of the row's; whole: how many it has. A text that is null has changed.
create or replace function memoryd.lacking_passages(
    p_scope bigint, p_id uuid, p_source text, p_passage smallint, p_maximum integer, p_characters integer)
returns table (scope bigint, id uuid, source text, passages smallint[], text_hash bigint, whole bigint,
               text text)
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
begin
    return query
    with lacking as materialized (
        select e.scope, e.id, e.source, e.passage, e.text_hash
        from memoryd.entries e
        where (e.scope, e.id, e.source, e.passage) > (p_scope, p_id, p_source, p_passage)
          and not exists (
              select from memoryd.spare_entries s
              where s.scope = e.scope and s.id = e.id and s.source = e.source and s.passage = e.passage
                and s.text_hash = e.text_hash and s.code is not null
              offset 0)
        order by e.scope, e.id, e.source, e.passage
        limit p_maximum
    )
    select l.scope, l.id, l.source, array_agg(l.passage order by l.passage), l.text_hash,
           (select count(*) from memoryd.entries e
            where e.scope = l.scope and e.id = l.id and e.source = l.source),
           (select left(t.searched_text, p_characters) from memoryd.searchable t
            where t.source = l.source and t.id = l.id and t.text_hash = l.text_hash)
    from lacking l
    group by l.scope, l.id, l.source, l.text_hash
    order by l.scope, l.id, l.source;
end
$$;

-- Writes passages with their embeddings into the spare generation, those that are still in memoryd.entries
-- with this text. What another transaction changes or deletes right now is left out: it writes its change
-- itself. Returns how many.
create or replace function memoryd.fill_generation(
    p_scopes bigint[], p_ids uuid[], p_sources text[], p_passages smallint[], p_hashes bigint[],
    p_embeddings vector[])
returns integer
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    written integer;
begin
    execute format(
        'insert into memoryd.spare_entries as spare (%s, given_outdated, embedding)
         select %s, true, l2_normalize(p.embedding)::halfvec
         from unnest($1, $2, $3, $4, $5, $6) as p(scope, id, source, passage, text_hash, embedding)
         join memoryd.entries e
             on e.scope = p.scope and e.id = p.id and e.source = p.source and e.passage = p.passage
             and e.text_hash = p.text_hash
         for share of e skip locked
         on conflict (scope, id, source, passage) do update
         set embedding = excluded.embedding
         where spare.text_hash = excluded.text_hash',
        memoryd.columns_in_common(), memoryd.columns_in_common('e.'))
    using p_scopes, p_ids, p_sources, p_passages, p_hashes, p_embeddings;
    get diagnostics written = row_count;
    return written;
end
$$;

-- Indexes rows again whose text is now cut into other passages than when it was indexed.
create or replace function memoryd.index_again(p_source text, p_ids uuid[], p_scopes bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    groups constant bigint[] := memoryd.groups_of(p_source, p_ids);
begin
    perform memoryd.delete_entries(p_source, p_ids || p_ids, p_scopes || groups);
    perform memoryd.index_rows(p_source, p_ids, p_scopes, '{}', p_ids, groups);
end
$$;

-- Brings the spare generation to the passages that memoryd.entries has: those that transactions with an older
-- snapshot, or that were rolled back, have left. p_keys_only: for the last moments, when nobody writes.
create or replace function memoryd.reconcile_generation(p_keys_only boolean) returns void
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    if p_keys_only then
        delete from memoryd.spare_entries s
        where not exists (
            select from memoryd.entries e
            where e.scope = s.scope and e.id = s.id and e.source = s.source and e.passage = s.passage);
    else
        delete from memoryd.spare_entries s
        where not exists (
            select from memoryd.entries e
            where e.scope = s.scope and e.id = s.id and e.source = s.source and e.passage = s.passage
              and e.text_hash = s.text_hash);
    end if;
    execute format(
        'insert into memoryd.spare_entries (%s, given_outdated)
         select %s, true from memoryd.entries e
         where not exists (
             select from memoryd.spare_entries s
             where s.scope = e.scope and s.id = e.id and s.source = e.source and s.passage = e.passage)
         on conflict do nothing', memoryd.columns_in_common(), memoryd.columns_in_common('e.'));
end
$$;

-- Lets the two generations change places, and queues what lacks an embedding in the new one. Recall waits for
-- the renaming only; writers also while the last differences are looked for. Called with a lock_timeout.
create or replace function memoryd.swap_generations() returns integer
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    spare jsonb;
    used jsonb;
    queued integer;
begin
    lock table memoryd.entries, memoryd.spare_entries in share row exclusive mode;
    perform memoryd.reconcile_generation(true);
    lock table memoryd.entries, memoryd.spare_entries in access exclusive mode;
    select s.value into spare from memoryd.settings s where s.key = 'spare';
    select jsonb_object_agg(s.key, s.value) || jsonb_build_object('state', 'kept', 'since', now()) into used
    from memoryd.settings s where s.key in ('embedder', 'dimensions', 'instructions', 'similarity');
    perform memoryd.exchange_names();
    delete from memoryd.settings s where s.key in ('instructions', 'similarity');
    insert into memoryd.settings as s (key, value)
    select m.key, m.value
    from jsonb_each(spare - 'state' - 'since' || jsonb_build_object('spare', used)) m
    on conflict (key) do update set value = excluded.value, updated_at = now();
    insert into memoryd.settings as s (key, value)
    values ('former_embedders', jsonb_build_array(used - 'state' - 'since' - 'similarity'))
    on conflict (key) do update
    set value = (select jsonb_agg(distinct f) from jsonb_array_elements(s.value || excluded.value) f);
    -- Embeddings that were given for the model before are not used.
    update memoryd.unindexed u set recompute = true, given = false;
    insert into memoryd.jobs (topic, ref, payload)
    select 'index', e.id, jsonb_build_object('source', e.source)
    from (select distinct t.source, t.id from memoryd.entries t where t.code is null) e;
    get diagnostics queued = row_count;
    perform memoryd.wake('index');
    -- Memories whose embedding is the first that they have.
    perform memoryd.associate_indexed(array_agg(s.id), array_agg(s.scope), null)
    from (select distinct s.scope, s.id from memoryd.spare_entries s
          where s.source = 'memory' and s.code is null) s;
    return queued;
end
$$;

-- Gives each of the two tables, and each of their indexes, the name of the other.
create or replace function memoryd.exchange_names() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    ours constant text[] := array(
        select c.relname::text from pg_index i join pg_class c on c.oid = i.indexrelid
        where i.indrelid = 'memoryd.entries'::regclass);
    others constant text[] := array(
        select c.relname::text from pg_index i join pg_class c on c.oid = i.indexrelid
        where i.indrelid = 'memoryd.spare_entries'::regclass);
    name text;
begin
    foreach name in array ours loop
        execute format('alter index memoryd.%I rename to %I', name, 'swapped_' || name);
    end loop;
    foreach name in array others loop
        execute format('alter index memoryd.%I rename to %I',
                       name, replace(name, 'spare_entries', 'entries'));
    end loop;
    foreach name in array ours loop
        execute format('alter index memoryd.%I rename to %I', 'swapped_' || name, 'spare_' || name);
    end loop;
    alter table memoryd.entries rename to swapped_entries;
    alter table memoryd.spare_entries rename to entries;
    alter table memoryd.swapped_entries rename to spare_entries;
    update memoryd.settings s set key = 'swapped ' || s.key
    where s.key in ('dense_index.entries', 'dense_index.spare_entries');
    update memoryd.settings s
    set key = case s.key when 'swapped dense_index.entries' then 'dense_index.spare_entries'
                         else 'dense_index.entries' end,
        value = s.value || jsonb_build_object('index_name',
            case s.key when 'swapped dense_index.entries' then 'spare_' || (s.value ->> 'index_name')
                       else replace(s.value ->> 'index_name', 'spare_entries', 'entries') end)
    where s.key like 'swapped dense\_index.%';
end
$$;
