-- What a correction names in related_ids counts less in recall than the correction (the weight in
-- memoryd.source_knowledge). When a correction is written, changed or deleted, the entries of what it names
-- are brought up to date.
create or replace function memoryd.weigh_corrected() returns trigger
language plpgsql security definer
set search_path = pg_catalog, public, pg_temp
as $$
declare
    named uuid[];
begin
    if tg_op in ('INSERT', 'UPDATE') then
        select array_agg(distinct r) into named
        from new_rows n cross join unnest(n.related_ids) r where n.category = 'correction';
    end if;
    if tg_op in ('DELETE', 'UPDATE') then
        select named || array_agg(distinct r) into named
        from old_rows o cross join unnest(o.related_ids) r where o.category = 'correction';
    end if;
    if named is not null then
        perform memoryd.refresh_entries('knowledge', array_agg(k.id), array_agg(k.scope))
        from public.shared_knowledge k where k.id = any(named);
    end if;
    return null;
end
$$;
