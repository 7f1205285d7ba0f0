-- What an erasure and forget() delete of the replica.

-- Memories of a user that a person deleted in the replica and could bring back.
create or replace function memoryd.buried_memories(p_user uuid) returns uuid[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(array_agg(b.row_id), '{}')
    from memoryd.replica_buried b where b.user_id = p_user and b.source = 'memory'
$$;

-- What people deleted from the replica has no file, but may be open in a program that saves it. It comes
-- before the documents are deleted.
create or replace function memoryd.erase_tombstones(p_user uuid) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    insert into memoryd.replica_erased (id)
    select t.document_id from memoryd.replica_tombstones t join public.documents d on d.id = t.document_id
    where d.user_id = p_user
    on conflict do nothing
$$;

-- Deletes what the replica knows of a user's entries, and of others that were made of the user's memories:
-- what people deleted and could bring back, and texts of conflicts. The daemon that keeps the replica
-- deletes their files and sections, whatever these say by then. p_ids: all rows that were deleted. It comes
-- after the rows are deleted; the insights are locked since lock_remembered().
create or replace function memoryd.erase_sections(p_user uuid, p_ids uuid[], p_memories uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    buried constant uuid[] := memoryd.buried_memories(p_user);
    drawn uuid[];
begin
    if buried <> '{}' then
        with gone as (delete from public.dream_insights i where i.source_memories && buried returning i.id)
        select array_agg(g.id) into drawn from gone g;
    end if;
    update memoryd.replica_collections c set erased = true, stale = true where c.user_id = p_user;
    update memoryd.replica_sections s set erased = true where s.row_id = any(p_ids || drawn);
    delete from memoryd.replica_left_out l where l.user_id = p_user;
    delete from memoryd.replica_section_conflicts c where c.user_id = p_user;
    -- In files of others it stays without its text until its section is gone: a section of an unknown
    -- conflict is a new entry.
    update memoryd.replica_section_conflicts c set ended = true, title = '', body = '', base_hash = null
    where c.row_id = any(p_ids || drawn);
    delete from memoryd.replica_buried b
    where b.user_id = p_user or b.row ->> 'created_by' = p_user::text
       or b.row -> 'source_memories' ?| (p_memories || buried)::text[];
end
$$;

-- Those of p_ids that the replica has in a file of the caller, an end user, or keeps as what was deleted
-- there.
create or replace function memoryd.own_sections(p_ids uuid[]) returns uuid[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array_agg(o.row_id)
    from (select s.row_id, s.source, c.user_id
          from memoryd.replica_sections s join memoryd.replica_collections c on c.id = s.collection_id
          union
          select c.row_id, c.source, c.user_id from memoryd.replica_section_conflicts c
          union
          select b.row_id, b.source, b.user_id from memoryd.replica_buried b) o
    where o.row_id = any(p_ids) and o.source = 'memory' and o.user_id = memoryd.caller_id()
$$;

-- Has the sections of memories that are forgotten deleted from the replica, whatever people wrote into them,
-- and deletes what could bring them back: of end users their own.
create or replace function memoryd.forget_sections(p_ids uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update memoryd.replica_sections s set erased = true
    where s.source = 'memory' and s.row_id = any(p_ids)
      and not exists (select from public.agent_memory m where m.id = s.row_id);
    -- Without its text it stays until its section is gone: a section of an unknown conflict is a new entry.
    update memoryd.replica_section_conflicts c set ended = true, title = '', body = '', base_hash = null
    where c.source = 'memory' and c.row_id = any(p_ids)
      and not exists (select from public.agent_memory m where m.id = c.row_id);
    delete from memoryd.replica_buried b
    where b.source = 'memory' and b.row_id = any(p_ids)
      and (memoryd.caller_is_service() or b.user_id = memoryd.caller_id());
end
$$;
