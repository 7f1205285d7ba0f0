-- What a cosine of the embedding model says. Unrelated texts have a cosine of 0.03 with one model, of 0.75
-- with another; a calibrated similarity is 0 for these and 1 for the same text. So every threshold has one
-- value for all models. The daemon measures background and unit (memory/calibration.py) and keeps them in
-- memoryd.settings ('similarity'); of the local model, by which the thresholds were found, they are 0 and 1.

-- Of the model that recall uses: the mean cosine of unrelated texts, and what the same text has above it.
create or replace function memoryd.calibration(
    out background double precision, out unit double precision, out spread double precision)
language plpgsql stable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    select coalesce((s.value ->> 'background')::double precision, 0),
           coalesce((s.value ->> 'unit')::double precision, 1), (s.value ->> 'spread')::double precision
    into background, unit, spread
    from memoryd.settings s where s.key = 'similarity';
    background := coalesce(background, 0);
    unit := coalesce(unit, 1);
end
$$;

-- The calibrated similarity of a cosine, from -1 to 1. Null for NaN, the cosine of a vector that is all
-- zeros. Inlined.
create or replace function memoryd.calibrated(
    p_cosine double precision, p_background double precision, p_unit double precision)
returns double precision
language sql immutable parallel safe
return case when p_cosine <> 'NaN' then greatest(-1, least(1, (p_cosine - p_background) / p_unit)) end;
