-- Memories: remember(), their metadata, when they expire. What follows from a changed text is in
-- memories/associations.sql.

-- A user's memory that names no agent is remembered by the application's. Without a user the agent is all
-- that says whose it is.
create or replace function memoryd.assign_agent() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if new.user_id is null then
        raise exception 'this memory has neither a user_id nor an agent_id'
            using errcode = 'not_null_violation',
                  hint = 'Give user_id, whose memory it is (an end user: their own id), or agent_id, the '
                         'agent that remembers it; _shared is for every agent.';
    end if;
    new.agent_id := memoryd.app_agent_id();
    return new;
end
$$;

-- Sets ttl_hours and expires_at. Without ttl_hours a memory gets the default of its kind; without
-- expires_at it expires ttl_hours after it is stored. Where the user has set hours of their own, these
-- replace the default, and are the maximum; of a memory with a key they count from when it was
-- written again. The same query tells whether the user's memory is switched off: then the new row is dropped.
create or replace function memoryd.stamp_expiry() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    remembered boolean;
    maximum integer;
begin
    if new.user_id is not null then
        select s.memory_enabled,
               case when new.memory_type = 'task_memory' then s.task_memory_ttl_hours
                    else s.memory_ttl_hours end
        into remembered, maximum
        from public.memory_settings s where s.user_id = new.user_id;
        if tg_op = 'INSERT' and not remembered
           and memoryd.may_write_for(new.user_id) and not memoryd.importing() then
            return null;
        end if;
    end if;
    if new.ttl_hours = -2147483648 then
        new.ttl_hours := coalesce(maximum, memoryd.setting_integer(
            'ttl_hours.' || case when new.memory_type = 'task_memory' then 'task_memory' else new.kind end));
    end if;
    if maximum is not null then
        new.ttl_hours := least(new.ttl_hours, maximum);
    end if;
    -- On insert old is null. Of hours that are not allowed no time is computed: the check of the column
    -- refuses them.
    if new.ttl_hours is distinct from old.ttl_hours
       and new.expires_at is not distinct from old.expires_at then
        new.expires_at := case when new.ttl_hours > 0 then now() + make_interval(hours => new.ttl_hours) end;
    end if;
    if maximum is not null then
        new.expires_at := least(
            new.expires_at,
            case when tg_op = 'INSERT'
                      or (new.key is not null
                          and (new.content, new.metadata) is distinct from (old.content, old.metadata))
                 then now() else coalesce(new.text_changed_at, new.updated_at) end
            + make_interval(hours => maximum));
    end if;
    return new;
end
$$;

-- Sets updated_at, and text_changed_at where it is the text that has changed. Then it locks the key first: a
-- daemon that links memories has locked their keys (handlers/associate.py). So a link that is being made from
-- the old text is committed before this goes on, and memories_updated() deletes it.
create or replace function memoryd.stamp_memory() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if new.content is distinct from old.content then
        perform from public.agent_memory m where m.id = old.id for update;
        new.text_changed_at := clock_timestamp();
    else
        new.text_changed_at := coalesce(old.text_changed_at, old.updated_at);
    end if;
    -- It no longer is what remember() was given.
    if (new.content, new.agent_id, new.kind, new.metadata -> 'project', new.superseded_by, new.valid_to)
       is distinct from
       (old.content, old.agent_id, old.kind, old.metadata -> 'project', old.superseded_by, old.valid_to) then
        new.said_key := null;
    end if;
    new.updated_at := clock_timestamp();
    return new;
end
$$;

-- Stores a memory. If the same agent has remembered the same of the same user before, of this kind and in
-- this project, that memory is strengthened instead: it counts how often it was said (metadata.said_again),
-- and lives on as long as a new one would. With a key it replaces the memory that this agent keeps by that
-- key, and what else says the same stays beside it. No row: the user has switched memory off.
create or replace function public.remember(
    content text,
    agent_id text default null,
    user_id uuid default null,
    kind text default 'fact',
    metadata jsonb default '{}',
    ttl_hours integer default -2147483648,
    key text default null
) returns table (id uuid, what text, expires_at timestamptz)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    given constant jsonb := coalesce(remember.metadata, '{}');
begin
    if remember.content is null then
        raise exception 'remember needs a text'
            using errcode = 'null_value_not_allowed', hint = 'select remember(''what it is'', ''agent'').';
    end if;
    if remember.key is not null then
        return query
        insert into public.agent_memory as m (agent_id, user_id, kind, content, metadata, ttl_hours, key)
        values (remember.agent_id, coalesce(remember.user_id, memoryd.caller_id()), remember.kind,
                remember.content, given, remember.ttl_hours, remember.key)
        on conflict (scope, agent_id, key) where key is not null do update
        set kind = excluded.kind, content = excluded.content, metadata = excluded.metadata,
            ttl_hours = excluded.ttl_hours, expires_at = excluded.expires_at, embedding = null,
            memory_type = null, valid_from = null, valid_to = null, superseded_by = null
        returning m.id, case when m.xmax = 0 then 'stored' else 'replaced' end, m.expires_at;
        return;
    end if;
    return query
    insert into public.agent_memory as m (agent_id, user_id, kind, content, metadata, ttl_hours, said_key)
    values (remember.agent_id, coalesce(remember.user_id, memoryd.caller_id()), remember.kind,
            remember.content, given, remember.ttl_hours,
            memoryd.said_key(remember.kind, given ->> 'project', remember.content))
    on conflict (scope, agent_id, said_key) where said_key is not null do update
    set metadata = m.metadata || excluded.metadata || jsonb_build_object(
            'said_again', 1 + case when jsonb_typeof(m.metadata -> 'said_again') = 'number'
                                   then (m.metadata ->> 'said_again')::numeric else 0 end),
        expires_at = case when m.expires_at is not null and excluded.expires_at is not null
                          then greatest(m.expires_at, excluded.expires_at) end,
        ttl_hours = case when m.ttl_hours is not null and excluded.ttl_hours is not null
                         then greatest(m.ttl_hours, excluded.ttl_hours) end
    returning m.id,
              case when m.xmax = 0 then 'stored' else 'strengthened' end,
              m.expires_at;
end
$$;
comment on function public.remember(text, text, uuid, text, jsonb, integer, text) is
    'Stores a memory; of the same text (but for case, white space and punctuation) of the same agent, user, '
    'kind and project, it strengthens the memory that stands instead, and says so: what is stored or '
    'strengthened. With a key it replaces the memory that the agent keeps by that key: stored or replaced. '
    'No row: the user has switched memory off.';

-- Registers the agents of new memories.
create or replace function memoryd.memories_inserted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- A memory that an end user writes registers no agent: its name may be invented.
    if memoryd.caller_is_privileged() then
        perform memoryd.register_agents(array_agg(agent_id), '0', array_agg(user_id))
        from (select distinct agent_id, user_id from new_rows) n
        having count(*) > 0;
    end if;
    return null;
end
$$;

-- Whether a memory is true now: nothing has replaced it, and its time has not ended.
create or replace function memoryd.is_current(p_superseded_by uuid, p_valid_to timestamptz) returns boolean
language sql stable parallel safe
return p_superseded_by is null and (p_valid_to is null or p_valid_to > now());

create or replace function public.cleanup_expired_memory(max_rows integer default null) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    deleted bigint;
begin
    -- For the trigger seal_deleted(): nobody has asked for these deletions.
    perform set_config('memoryd.expiring', 'on', true);
    with expired as (
        select m.id from public.agent_memory m
        where m.expires_at <= now()
        order by m.expires_at
        limit max_rows
        for update skip locked
    ), gone as (
        delete from public.agent_memory m using expired e where m.id = e.id returning 1
    )
    select count(*) into deleted from gone;
    perform set_config('memoryd.expiring', '', true);
    return deleted;
end
$$;
comment on function public.cleanup_expired_memory(integer) is
    'Deletes memories past their expires_at and returns how many; their links are deleted too.';

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
