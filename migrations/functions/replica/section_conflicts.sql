-- Texts of entries that lost against another change: the daemon's and the commands' functions.

-- A person wrote into the sections of conflicts. Those that are over, or whose entry is gone, stay as they
-- are.
create or replace function memoryd.change_section_conflicts(
    p_daemon uuid, p_ids uuid[], p_titles text[], p_bodies text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.hold_replica(p_daemon);
    update memoryd.replica_section_conflicts c
    set title = n.title, body = n.body, since = f.version + 1
    from unnest(p_ids, p_titles, p_bodies) as n(id, title, body), memoryd.replica_sections s,
         memoryd.replica_collections f
    where c.id = n.id and s.source = c.source and s.row_id = c.row_id and f.id = s.collection_id
      and not c.ended and memoryd.row_exists(c.source, c.row_id);
end
$$;

-- Ends these conflicts; the entries keep the text that they have. Returns how many there were.
create or replace function memoryd.end_section_conflicts(p_ids uuid[]) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    ended bigint;
begin
    with over as (
        update memoryd.replica_section_conflicts c set ended = true
        where c.id = any(p_ids) and not c.ended
        returning c.source, c.row_id
    ), stale as (
        update memoryd.replica_collections c set stale = true
        from over o
        join memoryd.replica_sections s on s.source = o.source and s.row_id = o.row_id
        where c.id = s.collection_id
    )
    select count(*) into ended from over;
    perform memoryd.wake('replica');
    return ended;
end
$$;

-- Ends a conflict; its text becomes the entry's. Returns whether there was one.
create or replace function memoryd.take_section_conflict(p_id uuid) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.write_entry(c.source, c.row_id, c.label, c.title, c.body, clock_timestamp())
    from memoryd.replica_section_conflicts c
    where c.id = p_id and not c.ended;
    return memoryd.end_section_conflicts(array[p_id]) > 0;
end
$$;
