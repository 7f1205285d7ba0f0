-- A chunk is its document's user's. The document is locked, or a chunk written while it changes hands would keep the old ones.
-- End users add to documents of their own. One that is another's and one that is not there are the same to them.
create or replace function memoryd.own_chunk() returns trigger
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
        return null; -- nothing new is kept of them: a document that was dropped has no chunks either
    elsif not found then
        raise exception 'document % is not yours', coalesce(new.document_id::text, 'null')
            using errcode = 'insufficient_privilege',
                  hint = 'Take the id of a document of yours; to begin one: '
                         'insert into documents (title, user_id) values (...) returning id.';
    end if;
    return new;
end
$$;

create or replace function memoryd.documents_updated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    given uuid[];
begin
    select array_agg(n.id) into given
    from new_rows n
    where (n.id, coalesce(n.user_id::text, '')) not in (select o.id, coalesce(o.user_id::text, '') from old_rows o);
    if given is not null then
        update public.memory_chunks c set user_id = n.user_id
        from new_rows n
        where n.id = any(given) and c.document_id = n.id;
    end if;
    return null;
end
$$;
