-- The team's knowledge: its times, entries that are deleted, entries that are used, and entries that are no
-- longer used.

-- Sets updated_at, resolved_at, and the expiry of learning entries of low confidence.
create or replace function memoryd.stamp_knowledge() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'UPDATE' then
        new.updated_at := clock_timestamp();
        if new.status = 'active' and old.status = 'resolved'
           and new.resolved_at is not distinct from old.resolved_at then
            new.resolved_at := null;
        end if;
    end if;
    -- An entry that becomes a learning one of low confidence expires after 7 days, unless it has a time. On
    -- insert old is null.
    if new.confidence = 'low' and new.tier = 'learning' and new.expires_at is null
       and (old.confidence, old.tier) is distinct from (new.confidence, new.tier) then
        new.expires_at := now() + interval '7 days';
    end if;
    if new.status = 'resolved' and new.resolved_at is null then
        new.resolved_at := clock_timestamp();
    end if;
    return new;
end
$$;

-- Removes deleted entries from the related_ids of others. A decision loses the outcome that such an entry has
-- told: it is a copy of what that entry said.
create or replace function memoryd.knowledge_deleted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update public.shared_knowledge k
    set related_ids = array(select r from unnest(k.related_ids) with ordinality as u(r, nth)
                            where r not in (select o.id from old_rows o) order by nth)
    where k.related_ids <> '{}' and k.related_ids && (select array_agg(o.id) from old_rows o);
    if exists (select from old_rows o where o.category = 'outcome') then
        with scored as materialized (
            select k.id from public.shared_knowledge k
            where k.category = 'decision'
              and k.outcome ->> 'scored_by' in (
                  select o.id::text from old_rows o where o.category = 'outcome')
            order by k.id for no key update
        )
        update public.shared_knowledge k set outcome = null from scored s where k.id = s.id;
    end if;
    return null;
end
$$;

-- Counts a use of an entry.
create or replace function public.touch_knowledge(knowledge_id uuid) returns void
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    update public.shared_knowledge k
    set accessed_count = k.accessed_count + 1, last_accessed_at = now()
    where k.id = touch_knowledge.knowledge_id;
    if not found then
        raise exception 'no knowledge %', coalesce(touch_knowledge.knowledge_id::text, 'null')
            using errcode = 'no_data_found', hint = 'Give the id of a row of shared_knowledge.';
    end if;
end
$$;
comment on function public.touch_knowledge(uuid) is
    'Notes that an entry was used: what is used does not expire.';

-- Archives entries that have expired unused.
create or replace function public.expire_low_confidence() returns bigint
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    with archived as (
        update public.shared_knowledge k
        set status = 'archived'
        where k.confidence = 'low' and k.tier = 'learning' and k.expires_at < now()
          and k.accessed_count = 0 and k.status <> 'archived'
        returning 1
    )
    select count(*) from archived
$$;
comment on function public.expire_low_confidence() is
    'Archives learning entries of low confidence that nobody used in time; memoryd calls it itself.';

-- Archives working entries that were resolved 30 days ago or earlier. Core is never archived by memoryd.
create or replace function memoryd.archive_resolved() returns bigint
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    with archived as (
        update public.shared_knowledge k
        set status = 'archived'
        where k.tier = 'working' and k.status = 'resolved' and k.resolved_at < now() - interval '30 days'
        returning 1
    )
    select count(*) from archived
$$;
