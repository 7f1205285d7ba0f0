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
