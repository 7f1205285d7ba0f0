-- Cutting the content of documents into chunks: which documents, and how new chunks take the place of old
-- ones. The daemon cuts (plugins/documents/chunks.py).

-- Sets a document's status, and when an agent changed its text. A document without content has the chunks
-- that its writer brings: it is active, unless the writer says that it is still processing. A change of its
-- text that does not say who made it was made by an agent.
create or replace function memoryd.stamp_document() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if new.status is null
       or tg_op = 'UPDATE' and new.content is null and old.content is not null
          and new.status = 'processing' then
        new.status := case when new.content is null then 'active' else 'processing' end;
    end if;
    if tg_op = 'INSERT' then
        new.last_modified_agent := coalesce(
            new.last_modified_agent, case when new.last_modified_human is null then now() end);
    elsif (new.title, new.content) is distinct from (old.title, old.content)
          and new.last_modified_agent is not distinct from old.last_modified_agent
          and new.last_modified_human is not distinct from old.last_modified_human then
        new.last_modified_agent := now();
    end if;
    return new;
end
$$;

-- Queues these documents to be cut. Rows of end users take turns, as rows to index do.
create or replace function memoryd.queue_documents(p_ids uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    apart constant interval := memoryd.fair_spacing();
    began constant timestamptz := clock_timestamp();
begin
    insert into memoryd.jobs (topic, ref, fair_at)
    select 'document', d.id, began + apart * (d.nth - 1)
    from unnest(p_ids) with ordinality as d(id, nth);
    perform memoryd.wake('document');
end
$$;

-- Queues new documents with content to be cut.
create or replace function memoryd.documents_inserted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.queue_documents(array_agg(n.id order by n.created_at, n.id))
    from new_rows n
    where n.content is not null and n.status <> 'deleted'
    having count(*) > 0;
    return null;
end
$$;

-- Gives the chunks of a document to the document's new user, and what they are shared as; of shared chunks
-- that their writer brought, those of the document's project move with it. Notes whether recall may find
-- them; queues documents with another text.
create or replace function memoryd.documents_updated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    given uuid[];
    shared uuid[];
    moved uuid[];
    other_status uuid[];
    renamed uuid[];
begin
    -- `not in` is always looked up by a hash; a join might not be.
    select array_agg(n.id) into given
    from new_rows n
    where (n.id, coalesce(n.user_id::text, '')) not in (
        select o.id, coalesce(o.user_id::text, '') from old_rows o);
    select array_agg(n.id) into shared
    from new_rows n
    where n.chunked_at is not null
      and (n.id, coalesce(n.access_level, -1), n.visibility_tags::text,
           coalesce((n.metadata -> 'project')::text, '')) not in (
          select o.id, coalesce(o.access_level, -1), o.visibility_tags::text,
                 coalesce((o.metadata -> 'project')::text, '') from old_rows o);
    select array_agg(n.id) into moved
    from new_rows n
    where n.chunked_at is null
      and (n.id, coalesce((n.metadata -> 'project')::text, '')) not in (
          select o.id, coalesce((o.metadata -> 'project')::text, '') from old_rows o);
    select array_agg(n.id) into other_status
    from new_rows n
    where (n.id, n.status) not in (select o.id, o.status from old_rows o);
    select array_agg(n.id) into renamed
    from new_rows n
    where (n.id, n.title) not in (select o.id, o.title from old_rows o);
    if given is not null then
        update public.memory_chunks c set user_id = n.user_id
        from new_rows n
        where n.id = any(given) and c.document_id = n.id;
    end if;
    if shared is not null then
        update public.memory_chunks c
        set access_level = n.access_level, visibility_tags = n.visibility_tags,
            metadata = memoryd.chunk_metadata(c.metadata, n.metadata)
        from new_rows n
        where n.id = any(shared) and c.document_id = n.id;
    end if;
    if moved is not null then
        update public.memory_chunks c set metadata = memoryd.chunk_metadata(c.metadata, n.metadata)
        from new_rows n join old_rows o on o.id = n.id
        where n.id = any(moved) and c.document_id = n.id and c.access_level is not null
          and c.metadata -> 'project' is not distinct from o.metadata -> 'project';
    end if;
    if other_status is not null then
        -- A chunk that is being indexed at this moment is waited for: its entry must not keep the old status.
        perform from public.memory_chunks c
        where c.document_id = any(other_status)
        order by c.id
        for no key update;
        perform memoryd.refresh_entries('document', array_agg(c.id), array_agg(c.scope)),
                memoryd.mark_outdated(array_agg(c.id) filter (where d.status not in ('active', 'conflict')))
        from public.memory_chunks c join public.documents d on d.id = c.document_id
        where c.document_id = any(other_status)
        having count(*) > 0;
    end if;
    -- Contexts and answers show the title with each passage.
    if renamed is not null then
        perform memoryd.mark_outdated(array_agg(c.id))
        from public.memory_chunks c where c.document_id = any(renamed)
        having count(*) > 0;
    end if;
    perform memoryd.queue_documents(array_agg(n.id order by n.created_at, n.id))
    from new_rows n
    where n.content is not null and n.status <> 'deleted'
      and (n.id, n.title, md5(n.content), (n.status = 'deleted')::text) not in (
          select o.id, o.title, coalesce(md5(o.content), ''), (o.status = 'deleted')::text from old_rows o)
    having count(*) > 0;
    return null;
end
$$;

-- The metadata of a chunk with the project that its document names, by which it is granted and found.
create or replace function memoryd.chunk_metadata(p_chunk jsonb, p_document jsonb) returns jsonb
language sql immutable parallel safe
return (p_chunk - 'project')
    || case when p_document ? 'project' then jsonb_build_object('project', p_document -> 'project')
            else '{}' end;

-- Replaces the chunks of a document by these, an array of objects with chunk_text, heading and headings. What
-- is the same as before stays the row that it is, so that only what has changed is indexed again. p_title and
-- p_hash (of the content) are of what was cut: if the document has another text by now, or is deleted,
-- nothing is written, since another job does. A document whose writer has brought chunks keeps those. Returns
-- how many chunks are new.
create or replace function memoryd.write_chunks(p_document uuid, p_title text, p_hash bytea, p_chunks jsonb)
returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    document public.documents;
    added integer;
begin
    select * into document from public.documents d where d.id = p_document for no key update;
    if not found or document.status = 'deleted' or document.title <> p_title
       or sha256(convert_to(document.content, 'UTF8')) is distinct from p_hash then
        return 0;
    end if;
    if document.chunked_at is null
       and exists (select from public.memory_chunks c where c.document_id = p_document) then
        update public.documents d
        set status = case d.status when 'processing' then 'active' else d.status end, content_hash = p_hash
        where d.id = p_document;
        return 0;
    end if;
    added := memoryd.replace_chunks(document, p_chunks);
    update public.documents d
    set status = case d.status when 'processing' then 'active' else d.status end, content_hash = p_hash,
        chunked_at = now()
    where d.id = p_document;
    return added;
end
$$;

-- What a chunk says under which headings: a language model is not asked twice about the same.
create or replace function memoryd.chunk_key(p_text text, p_headings text[]) returns text
language sql immutable parallel safe
return md5(to_jsonb(p_headings)::text || p_text);

-- The second half of memoryd.write_chunks().
create or replace function memoryd.replace_chunks(p_document public.documents, p_chunks jsonb)
returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    kept uuid[];
    indexes integer[];
    keys text[];
    situations text[];
    added integer;
begin
    select array_agg(s.key), array_agg(s.situation) into keys, situations
    from (select distinct on (1) memoryd.chunk_key(c.chunk_text, c.headings) as key, c.situation
          from public.memory_chunks c
          where c.document_id = (p_document).id and c.situation is not null) s;
    -- Of several chunks with the same words the first is the first, and so on.
    with there as (
        select t.id, row_number() over (partition by t.chunk_text, t.heading, t.headings
                                        order by t.chunk_index) as nth,
               t.chunk_text, t.heading, t.headings
        from (select c.id, c.chunk_index, c.chunk_text, c.headings,
                     -- Without the sentence that a language model has added.
                     case when c.situation <> ''
                          then left(c.context, greatest(0, length(c.context) - length(c.situation) - 1))
                          else c.context end as heading
              from public.memory_chunks c where c.document_id = (p_document).id) t
    ), wanted as (
        select w.chunk_text, w.heading, w.headings, (w.number - 1)::integer as index,
               row_number() over (partition by w.chunk_text, w.heading, w.headings order by w.number) as nth
        from rows from (jsonb_to_recordset(p_chunks) as (chunk_text text, heading text, headings text[]))
             with ordinality as w(chunk_text, heading, headings, number)
    )
    select array_agg(t.id order by w.index), array_agg(w.index order by w.index) into kept, indexes
    from there t
    join wanted w on w.chunk_text = t.chunk_text and w.heading is not distinct from t.heading
                 and w.headings = t.headings and w.nth = t.nth;
    delete from public.memory_chunks c
    where c.document_id = (p_document).id and (kept is null or c.id <> all (kept));
    -- In two steps: no two chunks may have the same index, not even for a moment.
    update public.memory_chunks c set chunk_index = 1000000000 + k.index
    from unnest(kept, indexes) as k(id, index)
    where c.id = k.id and c.chunk_index <> k.index;
    update public.memory_chunks c set chunk_index = k.index
    from unnest(kept, indexes) as k(id, index)
    where c.id = k.id and c.chunk_index <> k.index;
    insert into public.memory_chunks (
        document_id, chunk_index, chunk_text, context, situation, headings, metadata, access_level,
        visibility_tags)
    select (p_document).id, w.number - 1, w.chunk_text, concat_ws(E'\n', w.heading, nullif(s.situation, '')),
           s.situation, w.headings, memoryd.chunk_metadata('{}', (p_document).metadata),
           (p_document).access_level, (p_document).visibility_tags
    from rows from (jsonb_to_recordset(p_chunks) as (chunk_text text, heading text, headings text[]))
         with ordinality as w(chunk_text, heading, headings, number)
    left join unnest(keys, situations) as s(key, situation)
        on s.key = memoryd.chunk_key(w.chunk_text, w.headings)
    where indexes is null or (w.number - 1)::integer <> all (indexes)
    order by w.number;
    get diagnostics added = row_count;
    return added;
end
$$;

-- What recall shows of the document of a chunk, also to callers who may read the chunk and not the document;
-- of a chunk that the caller may not read nothing.
create or replace function memoryd.document_of_chunk(p_chunk uuid) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
    access constant public.user_memory_access :=
        case when not caller.privileged
             then memoryd.access_of(caller.user_id, memoryd.current_project()) end;
begin
    if caller.privileged and not caller.is_service then
        perform memoryd.log_admin_read('documents', c.user_id)
        from public.memory_chunks c where c.id = p_chunk and c.user_id is not null;
    end if;
    return coalesce(
        (select jsonb_strip_nulls(jsonb_build_object(
             'title', d.title, 'document_source', d.source, 'document_type', d.document_type,
             'replica_path', d.replica_path))
         from public.memory_chunks c join public.documents d on d.id = c.document_id
         where c.id = p_chunk
           and (caller.privileged or c.user_id = caller.user_id
                or memoryd.grants_access(access, c.access_level, c.visibility_tags, c.metadata))),
        '{}');
end
$$;
