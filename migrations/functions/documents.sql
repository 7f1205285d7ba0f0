-- Documents and their chunks: a chunk belongs to the user of its document.

-- Sets a chunk's user_id to that of its document. The document is locked, since a chunk that is written while
-- the document is given to another user would otherwise keep the old one. End users write chunks of their own
-- documents: a document of another user and one that does not exist are refused by the same words.
create or replace function memoryd.assign_chunk_owner() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if memoryd.caller_is_service() then
        select d.user_id into new.user_id
        from public.documents d
        where d.id = new.document_id
        for no key update;
        return new;
    end if;
    select d.user_id into new.user_id
    from public.documents d
    where d.id = new.document_id and d.user_id = memoryd.caller_id()
    for no key update;
    if not found and memoryd.memory_is_off(memoryd.caller_id()) then
        return null; -- their memory is off: the document was dropped, so its chunks are too
    elsif not found then
        raise exception 'document % is not yours', coalesce(new.document_id::text, 'null')
            using errcode = 'insufficient_privilege',
                  hint = 'Take the id of a document of yours; to begin one: '
                         'insert into documents (title, user_id) values (...) returning id.';
    end if;
    return new;
end
$$;

-- Gives the chunks of a document to the document's new user, and notes whether recall may find them.
create or replace function memoryd.documents_updated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    given uuid[];
    other_status uuid[];
begin
    select array_agg(n.id) into given
    from new_rows n
    where (n.id, coalesce(n.user_id::text, '')) not in (
        select o.id, coalesce(o.user_id::text, '') from old_rows o);
    if given is not null then
        update public.memory_chunks c set user_id = n.user_id
        from new_rows n
        where n.id = any(given) and c.document_id = n.id;
    end if;
    select array_agg(n.id) into other_status
    from new_rows n
    where (n.id, n.status) not in (select o.id, o.status from old_rows o);
    if other_status is not null then
        perform memoryd.refresh_entries('document', array_agg(c.id), array_agg(c.scope))
        from public.memory_chunks c where c.document_id = any(other_status)
        having count(*) > 0;
    end if;
    return null;
end
$$;
