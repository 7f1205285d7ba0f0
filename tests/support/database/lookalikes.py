"""A schema of look-alikes: functions and operators under the names of Postgres's own, tables under ours, each a trap.

Where a function of ours were to find one of them by the caller's search_path, it would raise the word TRAPPED.
"""

from __future__ import annotations

TRAPPED = "trapped"

MAKE = """
create schema trap;
grant usage on schema trap to public;
do $$
declare
    each record;
    made integer := 0;
begin
    for each in
        select p.proname, pg_get_function_identity_arguments(p.oid) as arguments, pg_get_function_result(p.oid) as result
        from pg_proc p
        where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.prolang = 12
          and p.proname in (
              select distinct m[1] from pg_proc f cross join lateral regexp_matches(f.prosrc, '([a-z_0-9]+)\\(', 'g') m
              where f.pronamespace in ('public'::regnamespace, 'memoryd'::regnamespace))
    loop
        begin
            execute format('create function trap.%I(%s) returns %s language plpgsql as '
                           '$f$ begin raise exception ''trapped by %s''; end $f$',
                           each.proname, each.arguments, each.result, each.proname);
            made := made + 1;
        exception when others then
            null; -- some take what no language but C can take
        end;
    end loop;
    for each in
        select o.oid, o.oprname, o.oprleft::regtype::text as l, o.oprright::regtype::text as r,
               o.oprresult::regtype::text as result
        from pg_operator o
        where o.oprleft <> 0 and o.oprname in ('=', '<>', '<', '>', '<=', '>=', '||', '@>', '&&', '->>', '->', '#>>', '?', '~',
                                               '~*', '!~', '+', '-', '*', '/', '<=>', '<#>', '<~>')
          and o.oprleft::regtype::text = any('{text,uuid,bigint,integer,jsonb,anyarray,vector,sparsevec,real,double precision,
              boolean,timestamp with time zone,bit,name,tsvector,anycompatiblearray,anycompatible}')
    loop
        begin
            execute format('create function trap.%I(%s, %s) returns %s language plpgsql as '
                           '$f$ begin raise exception ''trapped by an operator''; end $f$',
                           'operator_' || each.oid, each.l, each.r, each.result);
            execute format('create operator trap.%s (function = trap.%I, leftarg = %s, rightarg = %s)',
                           each.oprname, 'operator_' || each.oid, each.l, each.r);
            made := made + 1;
        exception when others then
            null;
        end;
    end loop;
    for each in
        select c.relname from pg_class c
        where c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace) and c.relkind in ('r', 'v')
    loop
        begin
            execute format('create table trap.%I (trapped text)', each.relname);
            execute format('grant all on trap.%I to public', each.relname);
        exception when duplicate_table then
            null;
        end;
    end loop;
    if made < 300 then
        raise exception 'only % look-alikes', made;
    end if;
end
$$;
"""

ENTER = """
create temp table agent_memory (trapped text);
create temp table memory_settings (trapped text);
create temp table jobs (trapped text);
create temp table agents (trapped text);
set local search_path = trap, pg_temp, public, pg_catalog;
"""
