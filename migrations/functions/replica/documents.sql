-- The replica of documents in a folder: what the daemon that keeps it (plugins/replica/) reads and writes.
-- The functions that write take the daemon's id, and refuse one that has lost the replica to another daemon.

-- Wakes the daemon that keeps the replica.
create or replace function memoryd.wake_replica() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from memoryd.replica r where r.leased_until > now()) then
        perform memoryd.wake('replica');
    end if;
    return null;
end
$$;

-- Where there is a replica, notes the documents whose chunks were written: those whose writer brings them.
create or replace function memoryd.note_chunks() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from memoryd.replica r
                   where r.leased_until > now() or r.synced_at is not null) then
        return null;
    end if;
    insert into memoryd.replica_changes (source, row_id)
    select 'document', d.id from public.documents d
    where d.id in (select c.document_id from changed_rows c) and d.content is null and d.chunked_at is null;
    if found then
        perform memoryd.wake('replica');
    end if;
    return null;
end
$$;

-- The text of a document whose chunks its writer brings, as its file has it: the chunks in order. Null
-- without chunks, and where it were longer than a document's text may be.
create or replace function memoryd.text_of_chunks(p_document uuid) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case when sum(length(c.chunk_text) + 2) <= 10000000
                then string_agg(c.chunk_text, E'\n\n' order by c.chunk_index) end
    from public.memory_chunks c where c.document_id = p_document
$$;

-- Keeps the lease of this daemon until the transaction ends, or refuses.
create or replace function memoryd.hold_replica(p_daemon uuid) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from memoryd.replica r where r.daemon_id = p_daemon for share;
    if not found then
        raise exception 'another daemon keeps the replica now' using errcode = 'lock_not_available';
    end if;
end
$$;

-- The front matter that people added to a document's file, as they wrote it.
create or replace function memoryd.front_matter(p_metadata jsonb) returns text
language sql immutable parallel safe
return coalesce(p_metadata ->> 'front_matter', '');

-- A document's metadata with this front matter.
create or replace function memoryd.with_front_matter(p_metadata jsonb, p_front_matter text) returns jsonb
language sql immutable parallel safe
return case when p_front_matter = '' then p_metadata - 'front_matter'
            else p_metadata || jsonb_build_object('front_matter', p_front_matter) end;

-- The documents whose file has to be compared with them: those with another version than was compared last,
-- and those without a file that shall have one. Those in p_ids as well. A document of which chunks were
-- written has another version from now on.
create or replace function memoryd.documents_to_compare(p_ids uuid[]) returns setof uuid
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- An update wakes the daemon, also where it changes nothing: then there would always be a next pass.
    if exists (select from memoryd.replica_changes n where n.source = 'document') then
        with free as materialized (
            select d.id from public.documents d
            where d.id in (select n.row_id from memoryd.replica_changes n where n.source = 'document')
            order by d.id
            for no key update skip locked
        ), taken as (
            delete from memoryd.replica_changes n
            where n.source = 'document'
              and (n.row_id in (select f.id from free f)
                   or not exists (select from public.documents d where d.id = n.row_id))
        )
        update public.documents d set last_modified_agent = now()
        from free f where d.id = f.id and d.content is null;
    end if;
    return query
    select f.document_id
    from memoryd.replica_files f
    left join public.documents d on d.id = f.document_id
    where f.conflict_id is null and (d.id is null or d.updated_at is distinct from f.row_version)
    union
    select d.id
    from public.documents d
    where d.status in ('active', 'conflict')
      and (d.content is not null
           or d.chunked_at is null and exists (select from public.memory_chunks c where c.document_id = d.id))
      and not exists (select from memoryd.replica_files f
                      where f.document_id = d.id and f.conflict_id is null)
    union
    select unnest(p_ids);
end
$$;

-- Gives documents these paths. Each path belongs to one document.
create or replace function memoryd.place_documents(p_ids uuid[], p_paths text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from public.documents d
    where d.id = any(p_ids) or d.replica_path = any(p_paths)
    order by d.id for no key update;
    update public.documents d set replica_path = null
    where d.replica_path = any(p_paths)
      and not exists (select from unnest(p_ids, p_paths) as n(id, path)
                      where n.id = d.id and n.path = d.replica_path);
    update public.documents d set replica_path = n.path
    from unnest(p_ids, p_paths) as n(id, path)
    where d.id = n.id and d.replica_path is distinct from n.path;
end
$$;

-- Notes what file and row both have now. p_versions: the updated_at that was compared; if the row has another
-- one by now, it is compared again. p_began: which text the file that was taken last began from.
create or replace function memoryd.note_replica_files(
    p_daemon uuid, p_paths text[], p_documents uuid[], p_conflicts uuid[], p_users uuid[], p_bases bytea[],
    p_files bytea[], p_versions timestamptz[], p_began bytea[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    own constant uuid[] := array(
        select n.document from unnest(p_documents, p_conflicts) as n(document, conflict)
        where n.conflict is null);
    unchanged uuid[];
begin
    perform memoryd.hold_replica(p_daemon);
    unchanged := memoryd.lock_unchanged(p_documents, p_versions);
    perform memoryd.place_documents(array_agg(n.document), array_agg(n.path))
    from unnest(p_paths, p_documents, p_conflicts) as n(path, document, conflict)
    where n.conflict is null;
    delete from memoryd.replica_tombstones t where t.document_id = any(own);
    delete from memoryd.replica_files f
    using unnest(p_documents, p_conflicts) as n(document, conflict)
    where f.document_id = n.document and f.conflict_id is not distinct from n.conflict;
    insert into memoryd.replica_files (
        path, document_id, conflict_id, user_id, base_hash, file_hash, row_version, began_hash)
    select n.path, n.document, n.conflict, n.owner, n.base, n.file,
           case when n.conflict is null then d.updated_at end, n.began
    from unnest(p_paths, p_documents, p_conflicts, p_users, p_bases, p_files, p_began)
         as n(path, document, conflict, owner, base, file, began)
    left join public.documents d on d.id = n.document and d.id = any(unchanged);
end
$$;

-- Files were moved. p_paths: where the documents' own files are now. p_given: memoryd has moved them into the
-- folders of other users, whom the documents were given to.
create or replace function memoryd.move_replica_files(
    p_daemon uuid, p_documents uuid[], p_paths text[], p_given boolean) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.hold_replica(p_daemon);
    perform memoryd.place_documents(p_documents, p_paths);
    update memoryd.replica_files f
    set path = n.path, row_version = null, missing_since = null,
        user_id = case when p_given and d.id is not null then d.user_id else f.user_id end
    from unnest(p_documents, p_paths) as n(document, path)
    left join public.documents d on d.id = n.document
    where f.document_id = n.document and f.conflict_id is null;
end
$$;

-- Locks documents. Returns those that still have these versions (updated_at).
create or replace function memoryd.lock_unchanged(p_documents uuid[], p_versions timestamptz[])
returns uuid[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from public.documents d where d.id = any(p_documents) order by d.id for no key update;
    return array(
        select d.id from public.documents d
        join unnest(p_documents, p_versions) as n(document, version)
          on n.document = d.id and n.version = d.updated_at);
end
$$;

-- Takes what people wrote into files. A row that has another version than p_versions is left as it is: its id
-- is not returned, and it is compared again. p_lost: whether the row's text, which another change made, is
-- kept as a conflict. Sets the base to p_bases, and compares once more, so that the front matter is written.
create or replace function memoryd.take_edits(
    p_daemon uuid, p_paths text[], p_documents uuid[], p_versions timestamptz[], p_lost boolean[],
    p_titles text[], p_contents text[], p_front_matters text[], p_times timestamptz[], p_bases bytea[],
    p_files bytea[], p_began bytea[]) returns setof uuid
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    taken uuid[];
begin
    perform memoryd.hold_replica(p_daemon);
    taken := memoryd.lock_unchanged(p_documents, p_versions);
    insert into memoryd.replica_conflicts (document_id, title, content, front_matter)
    select d.id, d.title, d.content, memoryd.front_matter(d.metadata)
    from public.documents d
    join unnest(p_documents, p_lost) as n(document, lost) on n.document = d.id and n.lost
    where d.id = any(taken);
    update public.documents d
    set title = n.title, content = n.content,
        metadata = memoryd.with_front_matter(d.metadata, n.front_matter),
        last_modified_human = case when n.time = d.last_modified_human then n.time + interval '1 microsecond'
                                   else n.time end,
        status = case when n.lost then 'conflict' when d.status = 'deleted' then 'processing'
                      else d.status end
    from unnest(p_documents, p_lost, p_titles, p_contents, p_front_matters, p_times)
         as n(document, lost, title, content, front_matter, time)
    where d.id = n.document and d.id = any(taken);
    perform memoryd.note_replica_files(
        p_daemon, array_agg(n.path), array_agg(n.document), array_agg(null::uuid), array_agg(d.user_id),
        array_agg(n.base), array_agg(n.file), array_agg(null::timestamptz),
        array_agg(n.began))
    from unnest(p_paths, p_documents, p_bases, p_files, p_began) as n(path, document, base, file, began)
    join public.documents d on d.id = n.document
    where n.document = any(taken)
    having count(*) > 0;
    return query select unnest(taken);
end
$$;

-- Makes documents of files that people put into the replica. Users whose memory is off get none: their files
-- stay what they are. Returns the ids of the documents made.
create or replace function memoryd.add_documents(
    p_daemon uuid, p_paths text[], p_users uuid[], p_sources text[], p_titles text[], p_contents text[],
    p_front_matters text[], p_times timestamptz[], p_bases bytea[], p_files bytea[], p_began bytea[])
returns setof uuid
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    made uuid[];
begin
    perform memoryd.hold_replica(p_daemon);
    update public.documents d set replica_path = null where d.replica_path = any(p_paths);
    with added as (
        insert into public.documents (
            title, content, source, user_id, metadata, last_modified_human, replica_path)
        select n.title, n.content, n.source, n.user_id, memoryd.with_front_matter('{}', n.front_matter),
               n.time, n.path
        from unnest(p_titles, p_contents, p_sources, p_users, p_front_matters, p_times, p_paths)
             as n(title, content, source, user_id, front_matter, time, path)
        returning id, user_id, replica_path
    ), noted as (
        insert into memoryd.replica_files (path, document_id, user_id, base_hash, file_hash, began_hash)
        select n.path, a.id, a.user_id, n.base, n.file, n.began
        from added a
        join unnest(p_paths, p_bases, p_files, p_began) as n(path, base, file, began)
          on n.path = a.replica_path
        returning document_id
    )
    select array_agg(n.document_id) into made from noted n;
    return query select unnest(made);
end
$$;

-- A person deleted these files. Rows that have another version than p_versions stay. Returns the ids of those
-- that are deleted now.
create or replace function memoryd.bury_documents(
    p_daemon uuid, p_documents uuid[], p_versions timestamptz[], p_confirmed boolean) returns setof uuid
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    buried uuid[];
begin
    perform memoryd.hold_replica(p_daemon);
    buried := memoryd.lock_unchanged(p_documents, p_versions);
    update public.documents d set status = 'deleted', last_modified_human = now(), replica_path = null
    where d.id = any(buried);
    insert into memoryd.replica_tombstones (document_id, confirmed)
    select b, p_confirmed from unnest(buried) b
    on conflict (document_id) do update set deleted_at = now(), confirmed = excluded.confirmed;
    delete from memoryd.replica_files f where f.document_id = any(buried) and f.conflict_id is null;
    return query select unnest(buried);
end
$$;

-- These files are gone, and their rows have nothing to say any more.
create or replace function memoryd.forget_replica_files(
    p_daemon uuid, p_documents uuid[], p_conflicts uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.hold_replica(p_daemon);
    with gone as (
        delete from memoryd.replica_files f
        using unnest(p_documents, p_conflicts) as n(document, conflict)
        where f.document_id = n.document and f.conflict_id is not distinct from n.conflict
        returning f.document_id, f.conflict_id
    )
    insert into memoryd.replica_erased (id)
    select coalesce(g.conflict_id, g.document_id) from gone g
    where not exists (select from public.documents d where d.id = g.document_id)
    on conflict do nothing;
    update public.documents d set replica_path = null
    from unnest(p_documents, p_conflicts) as n(document, conflict)
    where d.id = n.document and n.conflict is null and d.replica_path is not null;
end
$$;

-- Those of these ids that a file or a section had, and that were erased or deleted for good. A row that was
-- put back since has a file again.
create or replace function memoryd.erased_for_good(p_ids uuid[]) returns setof uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select e.id from memoryd.replica_erased e
    where e.id = any(p_ids)
      and not exists (select from public.documents d where d.id = e.id)
      and e.id not in (select r.id from memoryd.existing_rows(p_ids) r)
$$;

-- Ends these conflicts; the documents keep the text that they have. A document without a further conflict is
-- active again. Returns how many there were.
create or replace function memoryd.end_conflicts(p_ids uuid[]) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    documents uuid[];
begin
    perform from public.documents d
    where d.id in (select c.document_id from memoryd.replica_conflicts c where c.id = any(p_ids))
    order by d.id for no key update;
    with ended as (
        delete from memoryd.replica_conflicts c where c.id = any(p_ids) returning c.document_id
    )
    select array_agg(e.document_id) into documents from ended e;
    update public.documents d set status = 'active'
    where d.id = any(documents) and d.status = 'conflict'
      and not exists (select from memoryd.replica_conflicts c where c.document_id = d.id);
    return coalesce(cardinality(documents), 0);
end
$$;

-- Ends a conflict; its text becomes the document's, which comes back if it was deleted meanwhile. Returns
-- whether there was one.
create or replace function memoryd.take_conflict(p_id uuid) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update public.documents d
    set title = c.title, content = c.content,
        metadata = memoryd.with_front_matter(d.metadata, c.front_matter),
        last_modified_human = clock_timestamp(),
        status = case d.status when 'deleted' then 'processing' else d.status end
    from memoryd.replica_conflicts c
    where c.id = p_id and d.id = c.document_id;
    return memoryd.end_conflicts(array[p_id]) > 0;
end
$$;

-- Undoes the deletion of a document. Returns whether it was deleted. That its file is gone says nothing any
-- more, so what is known of the file is forgotten.
create or replace function memoryd.restore_document(p_id uuid) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update public.documents d
    set status = case when exists (select from memoryd.replica_conflicts c where c.document_id = d.id)
                      then 'conflict' else 'processing' end
    where d.id = p_id and d.status = 'deleted';
    if not found then
        return false;
    end if;
    delete from memoryd.replica_tombstones t where t.document_id = p_id;
    delete from memoryd.replica_files f where f.document_id = p_id and f.conflict_id is null;
    return true;
end
$$;

-- Deletes for good what people deleted p_days ago. Returns how many documents. What was deleted for
-- good a year ago is forgotten: no program has its file open any more.
create or replace function memoryd.purge_documents(p_days integer) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    purged bigint;
begin
    delete from memoryd.replica_erased e where e.erased_at < now() - interval '1 year';
    with gone as (
        delete from public.documents d
        using memoryd.replica_tombstones t
        where t.document_id = d.id and d.status = 'deleted'
          and t.deleted_at < now() - make_interval(days => p_days)
        returning d.id
    )
    insert into memoryd.replica_erased (id) select g.id from gone g
    on conflict (id) do update set erased_at = excluded.erased_at;
    get diagnostics purged = row_count;
    delete from memoryd.replica_tombstones t
    using public.documents d
    where d.id = t.document_id and d.status <> 'deleted';
    return purged;
end
$$;

-- Forgets all files: they are compared with documents and entries again, and those that are missing are
-- written.
create or replace function memoryd.rewrite_replica() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from memoryd.replica_files;
    update memoryd.replica set trouble = null;
    update public.documents d set replica_path = null where d.replica_path is not null;
    update memoryd.replica_collections c
    set file_hash = null, stale = true, missing = 0, missing_since = null;
    update memoryd.replica_sections s set base_hash = null where s.base_hash is not null;
    update memoryd.replica_section_conflicts c set base_hash = null where c.base_hash is not null;
    perform memoryd.wake('replica');
end
$$;
