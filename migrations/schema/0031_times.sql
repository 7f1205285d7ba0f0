-- A question that asks for nothing but a time is answered with the rows of that time.

drop function if exists public.explain_recall(
    text, text, uuid, :vector_schema.vector, integer, text[], jsonb, jsonb);
drop function if exists memoryd.times_in(text, date, boolean);
drop function if exists memoryd.plain_signs(text, date);
drop function if exists memoryd.fit_passages(memoryd.search_request, memoryd.question, tid[]);

-- Whether the times that it names are all that is asked.
alter type memoryd.question add attribute only_times boolean;

-- How many results are shown: rows of a time are spread over it.
alter type memoryd.search_request add attribute shown bigint;

-- Histories and genealogies have times from the first year on.
do $do$
begin
    execute format($s$
create or replace %s memoryd.time_fits(p_name text, p_time timestamptz) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    return p_time between '0001-01-01 00:00+00' and '9999-12-30 00:00+00'
        or memoryd.refuse(p_name || ' is ' || p_time, 'Times from the year 1 to 9999.');
end
$$;
$s$, 'function');
end
$do$;
