-- Agents' runs (agent_sessions).

-- Sets updated_at, completed_at when the run ends (null again when it continues), and a progress of 100 when
-- it completes and its writer says nothing of the progress. A run that an export brings back keeps its own.
create or replace function memoryd.stamp_session() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if memoryd.importing() then
        return new;
    end if;
    if new.status in ('completed', 'error', 'cancelled') then
        new.completed_at := coalesce(new.completed_at, clock_timestamp());
    elsif tg_op = 'UPDATE' and new.status is distinct from old.status then
        new.completed_at := null;
    end if;
    if new.status = 'completed' and (case when tg_op = 'INSERT' then new.progress_percentage = 0
            else old.status <> 'completed' and new.progress_percentage = old.progress_percentage end) then
        new.progress_percentage := 100;
    end if;
    new.updated_at := clock_timestamp();
    return new;
end
$$;
