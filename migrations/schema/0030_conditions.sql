-- What the results of one recall must fulfil, beside the filter on their metadata: see recall_with().

create type memoryd.conditions as (
    since timestamptz,
    until timestamptz,
    roles text[],
    speakers text[],
    left_out_session uuid,
    left_out_from integer,
    as_of timestamptz
);

-- Functions that have got an argument more: without this the old ones would remain beside the new.
do $$
declare
    each regprocedure;
begin
    for each in
        select p.oid from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'memoryd'
          and p.proname in ('search_in_context', 'search', 'find', 'rank_passages', 'read_passages',
                            'candidates', 'worded_passages', 'nearest_passages', 'nearest_by_code',
                            'nearest_by_lists', 'fault_of_options', 'compose_context')
    loop
        execute 'drop function ' || each;
    end loop;
end
$$;
