-- Times: when a row was changed, and how long a call took.

-- Sets updated_at of a row that is changed. For tables in which every change counts; where only some do, or
-- more is to be set, the table has a function of its own (stamp_memory, stamp_knowledge, stamp_session).
create or replace function memoryd.stamp_updated_at() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    new.updated_at := clock_timestamp();
    return new;
end
$$;

-- The milliseconds since a time. Inlined.
create or replace function memoryd.ms_since(p_time timestamptz) returns integer
language sql volatile
return (extract(epoch from clock_timestamp() - p_time) * 1000)::integer;

-- Refuses a row with a time that not every driver reads, or a text that says nothing. Its arguments are the
-- names of the times, and of the texts.
create or replace function memoryd.refuse_values() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    given constant jsonb := to_jsonb(new);
begin
    perform memoryd.time_fits(c, (given ->> c)::timestamptz) from unnest(tg_argv[0]::text[]) c;
    perform memoryd.refuse(c || ' is blank', 'It has only characters that are not seen: write a text.')
    from unnest(tg_argv[1]::text[]) c
    where memoryd.is_blank(given ->> c);
    return new;
end
$$;
