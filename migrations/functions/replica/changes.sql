-- Which entries changed, for the replica of what is remembered: writers note it, and the daemon that keeps
-- the replica (plugins/replica/entries/sync.py) works it off.

-- Notes which entries a statement changed, and wakes the daemon that keeps the replica. The argument is their
-- source. A table has other columns than the next, so they are compared as jsonb, without those that
-- are no change of the entry: use, index, embedding. Without nested loops: see memoryd.commands_updated().
create or replace function memoryd.note_entries() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
declare
    changed uuid[];
begin
    if not exists (select from memoryd.replica r where r.noting) then
        return null;
    end if;
    if tg_op = 'INSERT' and tg_argv[0] = 'memory' then
        -- Outcomes of commands are most of the memories, and in no file.
        changed := array(select n.id from new_rows n where n.command_id is null);
    elsif tg_op = 'INSERT' then
        changed := array(select n.id from new_rows n);
    elsif tg_op = 'DELETE' and tg_argv[0] = 'memory' then
        changed := array(select o.id from old_rows o where o.command_id is null);
    elsif tg_op = 'DELETE' then
        changed := array(select o.id from old_rows o);
    else
        changed := array(
            select n.id
            from new_rows n
            join old_rows o using (id)
            where to_jsonb(n) - array['embedding', 'accessed_count', 'last_accessed_at']
                  is distinct from to_jsonb(o) - array['embedding', 'accessed_count', 'last_accessed_at']);
    end if;
    if changed = '{}' then
        return null;
    end if;
    insert into memoryd.replica_changes (source, row_id) select tg_argv[0], c from unnest(changed) c;
    if exists (select from memoryd.replica r where r.leased_until > now()) then
        perform memoryd.wake('replica');
    end if;
    return null;
end
$$;

-- Notes users who switched memory off or on.
create or replace function memoryd.note_switched() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from memoryd.replica r where r.noting) then
        insert into memoryd.replica_changes (source, row_id)
        values ('user', coalesce(new.user_id, old.user_id));
        perform memoryd.wake('replica');
    end if;
    return null;
end
$$;

-- Compares all entries with what is known of them, and notes those that differ, in place of the notes
-- p_notes.
create or replace function memoryd.compare_entries(p_daemon uuid, p_notes bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.hold_replica(p_daemon);
    delete from memoryd.replica_changes c where c.id = any(p_notes);
    insert into memoryd.replica_changes (source, row_id)
    select coalesce(e.source, s.source), coalesce(e.id, s.row_id)
    from memoryd.replica_entries e
    full join memoryd.replica_sections s on s.source = e.source and s.row_id = e.id
    where e.version is distinct from s.row_version
    order by e.created_at, e.id;
end
$$;
