-- What the metadata of the five types of memory are: the known fields of each, checked when a row is written.
-- Fields that are not named here are allowed, and metadata that are left empty are not checked.

-- The fields of a type: of which kind each is, which values it may have, whether it must be there; of an
-- object, its own fields.
create or replace function memoryd.metadata_fields(p_type text) returns jsonb
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
return case p_type
    when 'brand_memory' then jsonb '{
        "brand_name": {"is": "string"}, "industry": {"is": "string"}, "target_audience": {"is": "string"},
        "tone": {"is": "strings"}, "keywords": {"is": "strings"}, "competitors": {"is": "strings"},
        "source": {"is": "string", "of": ["user_input", "agent_inferred", "uploaded_doc"]}}'
    when 'user_preferences' then jsonb '{
        "preference_type": {"is": "string", "required": true,
                            "of": ["video_format", "actor", "music", "tone", "platform"]},
        "confidence_score": {"is": "number", "required": true},
        "last_updated": {"is": "string", "required": true},
        "source": {"is": "string", "of": ["explicit_choice", "inferred_from_usage"]}}'
    when 'competitive_memory' then jsonb '{
        "competitor_name": {"is": "string"}, "ad_id": {"is": "string"}, "date_captured": {"is": "string"},
        "hook_type": {"is": "string"}, "cta_type": {"is": "string"},
        "platform": {"is": "string", "of": ["meta", "tiktok", "youtube"]},
        "performance_metrics": {"is": "object", "fields": {
            "engagement_rate": {"is": "number"}, "view_count": {"is": "number"},
            "share_count": {"is": "number"}}}}'
    when 'task_memory' then jsonb '{
        "session_id": {"is": "string", "required": true},
        "task_type": {"is": "string", "required": true,
                      "of": ["full_agent_run", "research_only", "script_generation", "video_generation"]},
        "outcome": {"is": "string", "required": true, "of": ["success", "partial_success", "failure"]},
        "user_feedback": {"is": "string", "of": ["positive", "neutral", "negative"]},
        "decisions_made": {"is": "strings"}, "tools_used": {"is": "strings"}}'
    when 'performance_memory' then jsonb '{
        "video_id": {"is": "string", "required": true}, "platform": {"is": "string"},
        "campaign_context": {"is": "string"}, "what_worked": {"is": "string"},
        "what_didnt_work": {"is": "string"},
        "metrics": {"is": "object", "fields": {
            "views": {"is": "number"}, "engagement_rate": {"is": "number"},
            "conversion_rate": {"is": "number"}, "ctr": {"is": "number"}}}}' end;

-- The first thing that is wrong with metadata, and what is allowed; no row where nothing is. p_at: where
-- these fields are, for the words. A field that is null counts as left out. No value is repeated.
create or replace function memoryd.metadata_fault(p_fields jsonb, p_given jsonb, p_at text)
returns table (fault text, hint text)
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select p_at || '.' || f.key || w.fault,
           'Allowed: ' || (select string_agg(o, ', ') from jsonb_array_elements_text(f.value -> 'of') o)
               || '.'
    from jsonb_each(p_fields) f
    cross join lateral (select p_given -> f.key as value, f.value ->> 'is' as expected offset 0) g
    cross join lateral (select coalesce(jsonb_typeof(g.value), 'null') as kind offset 0) k
    cross join lateral (
        select case
            when k.kind = 'null' then case when f.value ? 'required' then ' is missing' end
            when g.expected = 'strings' then
                case when k.kind <> 'array' or jsonb_path_exists(g.value, '$[*].type() ? (@ != "string")')
                     then ' is no array of strings' end
            when k.kind <> g.expected then ' is of type ' || k.kind || ', and must be of type ' || g.expected
            when f.value ? 'of' and not (f.value -> 'of') ? (g.value #>> '{}')
                then ' has a value that it cannot have'
            when f.value ? 'fields' then (
                select substr(i.fault, length(f.key) + 1)
                from memoryd.metadata_fault(f.value -> 'fields', g.value, f.key) i)
            end as fault
        offset 0) w
    where w.fault is not null
    limit 1;
end
$$;

-- The fields of a type, below p_at, as one condition of a JSON path.
create or replace function memoryd.metadata_path(p_fields jsonb, p_at text) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select string_agg(
               format(case when f.value ? 'required' then '%s' else '(!exists(' || a.at || ') || %s)' end,
                      format(case f.value ->> 'is'
                                 when 'strings' then '%1$s.type() == "array" && !(%1$s[*].type() != "string")'
                                 else '%1$s.type() == "' || (f.value ->> 'is') || '"' end, a.at)
                      || coalesce(' && (' || (select string_agg(a.at || ' == ' || o, ' || ')
                                              from jsonb_array_elements(f.value -> 'of') o) || ')', '')
                      || coalesce(' && ' || memoryd.metadata_path(f.value -> 'fields', a.at), '')), ' && ')
    from jsonb_each(p_fields) f
    cross join lateral (select p_at || '.' || f.key as at) a
$$;

do $$
begin
    execute format($s$
-- Whether metadata are as those of a type say, by one path: nearly all rows need no more. Where it says no,
-- metadata_fault() finds what is wrong, or that nothing is (a field that is null). Inlined.
create or replace function memoryd.metadata_fits(p_type text, p_metadata jsonb) returns boolean
language sql immutable parallel safe
return jsonb_typeof(p_metadata) = 'object' and coalesce(case p_type %s end, false) $s$, (
        select string_agg(format('when %L then p_metadata @@ %L', t,
                                 memoryd.metadata_path(memoryd.metadata_fields(t), '$')), ' ')
        from unnest('{brand_memory,user_preferences,competitive_memory,task_memory,
                      performance_memory}'::text[]) t));
end
$$;

-- What the setting memoryd.metadata_kept has while memoryd itself writes a row again, with the metadata of
-- before. Signed, and of this transaction alone: anybody may change the setting.
create or replace function memoryd.pass_for_metadata() returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select memoryd.sign_log('metadata are kept in ' || pg_current_xact_id()::text) $$;

-- Warns of metadata that are not as those of their type, once a transaction, or refuses them: as the setting
-- metadata_schemas says. Rows of an import, and metadata that memoryd itself keeps while it
-- writes a row again (metadata_kept), were accepted before.
create or replace function memoryd.check_metadata() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    mode text;
    wrong record;
begin
    if memoryd.metadata_fits(new.memory_type, new.metadata) then
        return new;
    end if;
    mode := coalesce(
        (select s.value #>> '{}' from memoryd.settings s where s.key = 'metadata_schemas'), 'warn');
    if mode = 'off' or (mode = 'warn' and current_setting('memoryd.metadata_warned', true) = 'on') then
        return new;
    end if;
    if jsonb_typeof(new.metadata) <> 'object' then
        select 'metadata is of type ' || jsonb_typeof(new.metadata) as fault, 'Give an object.' as hint
        into wrong;
    else
        select f.* into wrong
        from memoryd.metadata_fault(memoryd.metadata_fields(new.memory_type), new.metadata, 'metadata') f;
    end if;
    if wrong.fault is null or memoryd.importing()
       or current_setting('memoryd.metadata_kept', true) = memoryd.pass_for_metadata() then
        return new;
    end if;
    wrong.fault := wrong.fault || ' (' || new.memory_type || ')';
    wrong.hint := concat_ws(' ', wrong.hint, 'The fields of each type: docs/supabase.md.');
    if mode = 'refuse' then
        perform memoryd.refuse(wrong.fault, wrong.hint);
    end if;
    perform set_config('memoryd.metadata_warned', 'on', true);
    raise warning '%', wrong.fault using hint = wrong.hint;
    return new;
end
$$;
