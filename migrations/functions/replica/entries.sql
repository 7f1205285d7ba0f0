-- What people do with the sections of what is remembered: edits, additions, moves, deletions, and bringing
-- back. The functions take the daemon's id, and refuse one that has lost the replica to another daemon.

-- The row of an entry as it is, locked; null if it is gone, or not as it was compared.
create or replace function memoryd.lock_entry(p_source text, p_id uuid, p_version bytea) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    found_row jsonb;
begin
    execute format('select to_jsonb(e) from public.%I e where e.id = $1 for update',
                   memoryd.entry_table(p_source))
    into found_row using p_id;
    if found_row is not null
       and not exists (select from memoryd.replica_entries e
                       where e.source = p_source and e.id = p_id and e.version = p_version) then
        return null;
    end if;
    return found_row;
end
$$;

-- Writes a person's words into a row.
create or replace function memoryd.write_entry(
    p_source text, p_id uuid, p_label text, p_title text, p_body text, p_time timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_source = 'memory' then
        update public.agent_memory m
        set kind = p_label, content = p_body, last_modified_human = p_time where m.id = p_id;
    elsif p_source = 'insight' then
        update public.dream_insights i
        set category = p_label, insight = p_body, last_modified_human = p_time where i.id = p_id;
    else
        update public.shared_knowledge k
        set category = p_label, title = p_title, content = p_body, last_modified_human = p_time
        where k.id = p_id;
    end if;
end
$$;

-- Takes what people wrote into sections. A row that is not as it was compared is left as it is: its id is not
-- returned. p_lost: whether the row's text, which another change made, is kept as a conflict.
create or replace function memoryd.take_entries(
    p_daemon uuid, p_source text, p_ids uuid[], p_versions bytea[], p_lost boolean[], p_labels text[],
    p_titles text[], p_bodies text[], p_bases bytea[], p_began bytea[], p_time timestamptz)
returns setof uuid
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    each record;
begin
    perform memoryd.hold_replica(p_daemon);
    if p_source = 'memory' then
        perform memoryd.lock_memories(p_ids);
    end if;
    for each in
        select * from unnest(p_ids, p_versions, p_lost, p_labels, p_titles, p_bodies, p_bases, p_began)
            as n(id, version, lost, label, title, body, base, began)
        order by n.id
    loop
        continue when memoryd.lock_entry(p_source, each.id, each.version) is null;
        insert into memoryd.replica_section_conflicts (source, row_id, user_id, label, title, body)
        select e.source, e.id, e.user_id, e.label, e.title, e.body
        from memoryd.replica_entries e
        where each.lost and e.source = p_source and e.id = each.id;
        perform memoryd.write_entry(p_source, each.id, each.label, each.title, each.body, p_time);
        update memoryd.replica_sections s
        set base_hash = each.base, began_hash = each.began, label = each.label,
            size = octet_length(each.body), since = c.version + 1
        from memoryd.replica_collections c
        where s.source = p_source and s.row_id = each.id and c.id = s.collection_id;
        return next each.id;
    end loop;
end
$$;

-- Brings back an entry that a person deleted, as it was; null if there is none, or if its user has switched
-- memory off. A time to live that is over begins again.
create or replace function memoryd.unbury_entry(p_source text, p_id uuid) returns uuid
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    in_table constant text := memoryd.entry_table(p_source);
    columns constant text := (select string_agg(quote_ident(c), ', ')
                              from unnest(memoryd.own_columns(in_table)) c);
    buried jsonb;
    back uuid;
    owner uuid;
begin
    -- Waits for an erasure of the user that is under way.
    select b.user_id into owner from memoryd.replica_buried b where b.source = p_source and b.row_id = p_id;
    if owner is not null then
        perform memoryd.lock_shared(memoryd.user_lock(owner));
    end if;
    select b.row || '{"dream_id": null}'
           || case when (b.row ->> 'expires_at')::timestamptz <= now() then jsonb '{"expires_at": null}'
                   else '{}' end
    into buried
    from memoryd.replica_buried b
    where b.source = p_source and b.row_id = p_id
    for update;
    if buried is null then
        return null;
    end if;
    -- Its metadata were accepted when it was first written: they are not checked again.
    perform set_config('memoryd.metadata_kept', memoryd.pass_for_metadata(), true);
    execute format('insert into public.%1$I (%2$s) select %2$s
                    from jsonb_populate_record(null::public.%1$I, $1) on conflict do nothing returning id',
                   in_table, columns)
    into back using buried;
    perform set_config('memoryd.metadata_kept', '', true);
    if back is not null then
        delete from memoryd.replica_buried b where b.source = p_source and b.row_id = p_id;
    end if;
    return back;
end
$$;

-- Undoes the deletion of an entry, by its id. Returns whether it was deleted, and could be brought back.
create or replace function memoryd.restore_entry(p_id uuid) returns boolean
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(bool_or(memoryd.unbury_entry(b.source, b.row_id) is not null), false)
    from memoryd.replica_buried b
    where b.row_id = p_id
$$;

-- Makes an entry of a collection of what a person wrote. Returns its id; null if its user has switched memory
-- off.
create or replace function memoryd.make_entry(
    p_of memoryd.replica_collections, p_label text, p_title text, p_body text, p_time timestamptz)
returns uuid
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    made uuid;
begin
    if p_of.source = 'memory' then
        insert into public.agent_memory (agent_id, user_id, kind, content, source, last_modified_human)
        values (coalesce(p_of.agent_id, '_shared'), p_of.user_id, p_label, p_body, 'replica', p_time)
        returning id into made;
    elsif p_of.source = 'insight' then
        insert into public.dream_insights (
            agent_id, user_id, insight, source_memories, category, confidence, last_modified_human)
        values (nullif(p_of.agent_id, '_shared'), p_of.user_id, p_body, '{}', p_label, 0.9, p_time)
        returning id into made;
    else
        insert into public.shared_knowledge (
            org_id, tier, category, title, content, created_by, source, last_modified_human)
        values (p_of.org_id, p_of.tier, p_label, p_title, p_body, 'person', 'replica', p_time)
        returning id into made;
    end if;
    return made;
end
$$;

-- Gives an entry to the agent, or the tier, of a collection of the same user: a person moved its section
-- there.
create or replace function memoryd.give_entry(p_to memoryd.replica_collections, p_id uuid) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_to.source = 'knowledge' then
        update public.shared_knowledge k set tier = p_to.tier, org_id = p_to.org_id
        where k.id = p_id and (k.tier, k.org_id) is distinct from (p_to.tier, p_to.org_id);
    elsif p_to.user_id is null and p_to.source = 'memory' then
        update public.agent_memory m set agent_id = p_to.agent_id
        where m.id = p_id and m.user_id is null and m.agent_id <> p_to.agent_id;
    elsif p_to.user_id is null then
        update public.dream_insights i set agent_id = nullif(p_to.agent_id, '_shared')
        where i.id = p_id and i.user_id is null and coalesce(i.agent_id, '_shared') <> p_to.agent_id;
    end if;
end
$$;

-- Makes entries of sections that people added to a file. p_wanted: the ids that the sections name: where a
-- person deleted such an entry before, of the same user, it comes back with this id. Returns the place of
-- each in the arguments, and its id. Entries of users who have switched memory off are not made.
create or replace function memoryd.add_entries(
    p_daemon uuid, p_collection uuid, p_wanted uuid[], p_labels text[], p_titles text[], p_bodies text[],
    p_bases bytea[], p_time timestamptz) returns table (place bigint, id uuid)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    of_collection memoryd.replica_collections;
    each record;
begin
    perform memoryd.hold_replica(p_daemon);
    select * into of_collection from memoryd.replica_collections c where c.id = p_collection;
    if of_collection.user_id is not null then
        -- Waits for an erasure of the user that is under way.
        perform memoryd.lock_shared(memoryd.user_lock(of_collection.user_id));
        select * into of_collection from memoryd.replica_collections c where c.id = p_collection;
        if of_collection.erased then
            return;
        end if;
    end if;
    if of_collection.source = 'memory' then
        perform memoryd.lock_memories(p_wanted);
    end if;
    for each in
        select * from unnest(p_wanted, p_labels, p_titles, p_bodies, p_bases) with ordinality
            as n(wanted, label, title, body, base, place)
    loop
        place := each.place;
        select memoryd.unbury_entry(b.source, b.row_id) into id
        from memoryd.replica_buried b
        where b.source = of_collection.source and b.row_id = each.wanted
          and b.user_id is not distinct from of_collection.user_id;
        if id is null then
            id := memoryd.make_entry(of_collection, each.label, each.title, each.body, p_time);
        else
            perform memoryd.write_entry(
                of_collection.source, id, each.label, each.title, each.body, p_time);
            perform memoryd.give_entry(of_collection, id);
        end if;
        continue when id is null;
        insert into memoryd.replica_sections as s
            (source, row_id, collection_id, size, label, base_hash, since)
        values (of_collection.source, id, p_collection, octet_length(each.body), each.label, each.base,
                of_collection.version + 1)
        on conflict (source, row_id) do update
        set collection_id = excluded.collection_id, base_hash = excluded.base_hash, erased = false,
            began_hash = null, since = excluded.since;
        return next;
    end loop;
end
$$;

-- A person moved the sections of these entries into the file of this collection.
create or replace function memoryd.adopt_entries(p_daemon uuid, p_collection uuid, p_ids uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.hold_replica(p_daemon);
    perform memoryd.give_entry(c, n.id)
    from memoryd.replica_collections c
    cross join lateral (select n.id from unnest(p_ids) as n(id) order by n.id) n
    where c.id = p_collection;
    update memoryd.replica_sections s
    set collection_id = p_collection, left_collection = null, left_hash = null, since = c.version + 1
    from memoryd.replica_collections c
    where c.id = p_collection and s.source = c.source and s.row_id = any(p_ids);
    -- Their conflicts have no section there yet.
    update memoryd.replica_section_conflicts x set base_hash = null
    from memoryd.replica_collections c
    where c.id = p_collection and x.source = c.source and x.row_id = any(p_ids);
end
$$;

-- A person deleted the sections of these entries. Rows that are not as they were compared stay. Returns the
-- entries that are deleted now.
create or replace function memoryd.bury_entries(
    p_daemon uuid, p_source text, p_collection uuid, p_ids uuid[], p_versions bytea[], p_confirmed boolean)
returns setof uuid
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    each record;
    was jsonb;
    buried uuid[] := '{}';
begin
    perform memoryd.hold_replica(p_daemon);
    for each in select * from unnest(p_ids, p_versions) as n(id, version) order by n.id loop
        was := memoryd.lock_entry(p_source, each.id, each.version);
        continue when was is null;
        buried := buried || each.id;
        insert into memoryd.replica_buried (source, row_id, user_id, collection_id, row, confirmed)
        values (p_source, each.id, (was ->> 'user_id')::uuid, p_collection, was - 'embedding', p_confirmed)
        on conflict (source, row_id) do update
        set row = excluded.row, deleted_at = now(), confirmed = excluded.confirmed;
    end loop;
    execute format('delete from public.%I e where e.id = any($1)', memoryd.entry_table(p_source))
    using buried;
    delete from memoryd.replica_sections s where s.source = p_source and s.row_id = any(buried);
    delete from memoryd.replica_section_conflicts c where c.source = p_source and c.row_id = any(buried);
    return query select unnest(buried);
end
$$;

-- Deletes for good what people deleted p_days ago. Returns how many entries. When no daemon has kept
-- the replica for a day, changes are noted no more: the next one compares all entries.
create or replace function memoryd.purge_entries(p_days integer) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    purged bigint;
begin
    delete from memoryd.replica_buried b where b.deleted_at < now() - make_interval(days => p_days);
    get diagnostics purged = row_count;
    update memoryd.replica r set noting = false
    where r.noting and greatest(r.leased_until, r.synced_at) < now() - interval '1 day';
    if found then
        delete from memoryd.replica_changes c where c.source <> 'document';
    end if;
    return purged;
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
