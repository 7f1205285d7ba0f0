-- Documents and their chunks: a chunk belongs to the user of its document.

-- Sets a chunk's user_id to that of its document, and its chunk_index, if none is given, to the next one. The
-- document is locked: else a chunk that is written while the document is given to another user would keep the
-- old one, and two would take one index. End users write chunks of their own documents: a document of another
-- user and one that does not exist are refused by the same words.
create or replace function memoryd.assign_chunk_owner() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    by_service constant boolean := memoryd.caller_is_service();
begin
    select d.user_id into new.user_id
    from public.documents d
    where d.id = new.document_id and (by_service or d.user_id = memoryd.caller_id())
    for no key update;
    if found or by_service then
        new.chunk_index := coalesce(new.chunk_index, (
            select coalesce(max(c.chunk_index) + 1, 0) from public.memory_chunks c
            where c.document_id = new.document_id));
        return new;
    elsif memoryd.memory_is_off(memoryd.caller_id()) then
        return null; -- their memory is off: the document was dropped, so its chunks are too
    else
        raise exception 'document % is not yours', coalesce(new.document_id::text, 'null')
            using errcode = 'insufficient_privilege',
                  hint = 'Take the id of a document of yours; to begin one: '
                         'insert into documents (title, user_id) values (...) returning id.';
    end if;
end
$$;
