-- The files of what is remembered: what each had last. The functions take the id of the daemon that keeps the
-- replica (plugins/replica/entries/), and refuse one that has lost it to another.

-- Puts entries into collections, and forgets the notes that said that they changed. p_stale: collections
-- whose file has to be compared again.
create or replace function memoryd.place_entries(
    p_daemon uuid, p_notes bigint[], p_stale uuid[], p_sources text[], p_ids uuid[], p_collections uuid[],
    p_sizes integer[], p_labels text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.hold_replica(p_daemon);
    -- In the order of an erasure, which locks collections first.
    perform from memoryd.replica_collections c
    where c.id = any(p_stale || p_collections) order by c.id for no key update;
    update memoryd.replica_collections c set stale = true
    where c.id = any(p_stale || p_collections) and not c.stale;
    insert into memoryd.replica_sections as s (source, row_id, collection_id, size, label)
    select n.source, n.id, n.collection, n.size, n.label
    from unnest(p_sources, p_ids, p_collections, p_sizes, p_labels)
         as n(source, id, collection, size, label)
    on conflict (source, row_id) do update
    set collection_id = excluded.collection_id, size = excluded.size, base_hash = null, row_version = null,
        left_collection = s.collection_id, left_hash = s.base_hash;
    delete from memoryd.replica_changes c where c.id = any(p_notes);
end
$$;

-- The table of a source's entries.
create or replace function memoryd.entry_table(p_source text) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select s.table_name from memoryd.sources() s where s.name = p_source
$$;

-- Notes what a collection's file and its entries have now. p_versions: of the rows that were compared.
-- p_conflicts: those that have a section now. p_gone: entries that have neither row nor section any more.
-- p_version: of the file.
create or replace function memoryd.note_collection(
    p_daemon uuid, p_collection uuid, p_path text, p_preamble text, p_file bytea, p_ids uuid[],
    p_labels text[], p_bases bytea[], p_versions bytea[], p_conflicts uuid[], p_conflict_bases bytea[],
    p_gone uuid[], p_version integer) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.hold_replica(p_daemon);
    update memoryd.replica_collections c
    set path = p_path, preamble = p_preamble, file_hash = p_file, missing = 0, version = p_version,
        missing_since = null,
        -- A conflict that ended while its section was written: the section has to go.
        stale = exists (select from memoryd.replica_section_conflicts x
                        where x.id = any(p_conflicts) and x.ended)
    where c.id = p_collection;
    update memoryd.replica_sections s
    set label = n.label, base_hash = n.base, row_version = n.version,
        since = case when s.base_hash = n.base then s.since else p_version end,
        began_hash = case when s.base_hash = n.base then s.began_hash end
    from unnest(p_ids, p_labels, p_bases, p_versions) as n(id, label, base, version),
         memoryd.replica_collections c
    where c.id = p_collection and s.source = c.source and s.row_id = n.id
      and (s.label, s.base_hash, s.row_version) is distinct from (n.label, n.base, n.version);
    with gone as (
        delete from memoryd.replica_section_conflicts c
        using memoryd.replica_sections s
        where s.collection_id = p_collection and c.source = s.source and c.row_id = s.row_id
          and (c.ended and c.id <> all (p_conflicts)
               or (c.row_id = any(p_gone)
                   and c.row_id not in (select e.id from memoryd.existing_rows(p_gone) e)))
        returning c.id, s.erased
    )
    insert into memoryd.replica_erased (id) select g.id from gone g where g.erased on conflict do nothing;
    -- Of a user who has switched memory off, the rows stay, and so do the texts of their conflicts.
    update memoryd.replica_section_conflicts c set base_hash = null
    from memoryd.replica_sections s
    where s.collection_id = p_collection and c.source = s.source and c.row_id = s.row_id
      and c.row_id = any(p_gone);
    with gone as (
        delete from memoryd.replica_sections s where s.collection_id = p_collection and s.row_id = any(p_gone)
        returning s.row_id, s.erased
    )
    insert into memoryd.replica_erased (id) select g.row_id from gone g where g.erased on conflict do nothing;
    update memoryd.replica_sections s set left_collection = null, left_hash = null
    where s.left_collection = p_collection;
    update memoryd.replica_section_conflicts c
    set base_hash = n.base, since = case when c.base_hash is null then p_version else c.since end
    from unnest(p_conflicts, p_conflict_bases) as n(id, base)
    where c.id = n.id and c.base_hash is distinct from n.base;
end
$$;
