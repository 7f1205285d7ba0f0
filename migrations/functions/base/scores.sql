-- The formulas of kind and recency. They have a parsed body, no SET and no subquery: they are
-- inlined into the queries that call them.

create or replace function memoryd.kind_weight(p_kind text) returns double precision
language sql immutable parallel safe
return case p_kind when 'outcome' then 1.0 when 'fact' then 1.0 when 'error' then 0.9
                   when 'goal' then 0.8 when 'observation' then 0.6 else 0.5 end;

-- The weight of a memory: its kind's. The fact that something was anchored says little, and must not stand
-- above what was anchored.
create or replace function memoryd.memory_weight(p_kind text, p_source text) returns double precision
language sql immutable parallel safe
return memoryd.kind_weight(p_kind) * case when p_source = 'anchor' then 0.2 else 1 end;

create or replace function memoryd.recency(p_created_at timestamptz) returns double precision
language sql stable parallel safe
return case when p_created_at > now() - interval '24 hours' then 0.15
            when p_created_at > now() - interval '72 hours' then 0.05
            else 0 end;

-- Which rows set the measure for each other in a context: what happened, which repeats the task that it is
-- of, and what is known or was said. Inlined.
create or replace function memoryd.kin_of(p_source text, p_kind text) returns text
language sql immutable parallel safe
return case when p_source = 'insight' or p_kind in ('outcome', 'error') then 'happened' else 'is known' end;
