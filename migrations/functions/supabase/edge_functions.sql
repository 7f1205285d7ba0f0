-- What an application's edge functions did: agent-memory-read and agent-memory-write, with the bodies that
-- these took and the answers that they gave, for the caller alone (docs/supabase.md). Both run with the
-- caller's rights. Of errors the gateway makes HTTP: an error of code PT401 is status 401.

-- Whose memory it is: the caller's own. Without a user it is refused as the edge functions refused it.
create or replace function memoryd.caller_or_401() returns uuid
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    caller constant uuid := memoryd.caller_id();
begin
    if caller is null then
        raise exception 'Unauthorized'
            using errcode = 'PT401', hint = 'Sign in: the token must name a user (sub).';
    end if;
    return caller;
end
$$;

create or replace function public."agent-memory-read"(
    query text,
    memory_type text default null,
    match_threshold double precision default '-infinity',
    match_count integer default 5
) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_variable
declare
    whose constant uuid := memoryd.caller_or_401();
    found jsonb;
begin
    if memoryd.is_blank(coalesce(query, '')) then
        raise exception 'query is %', case when query is null then 'null' else 'blank' end
            using errcode = 'invalid_parameter_value', hint = 'Say what to look for.';
    end if;
    perform memoryd.check_memory_type(memory_type, true);
    if match_threshold is null or not (match_threshold between -1 and 1 or match_threshold = '-infinity') then
        raise exception 'match_threshold is %', coalesce(match_threshold::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Give a similarity from -1 to 1, or leave it out for the model''s own.';
    end if;
    if match_count is null or not match_count between 0 and 1000 then
        raise exception 'match_count is %', coalesce(match_count::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Give how many results you want, from 0 to 1000, or leave it out for 5.';
    end if;
    -- With every argument, of its very type: no function of somebody else's fits better.
    select jsonb_agg(to_jsonb(r)) into found
    from public.match_memory(
        query_embedding => null::vector, query => query, match_threshold => match_threshold,
        match_count => match_count,
        memory_type => memory_type, filter_user_id => whose) r;
    return jsonb_build_object(
        'results', coalesce(found, '[]'),
        'by', case when memoryd.embeds_here() or current_setting('memoryd.question_embedding', true) <> ''
                   then 'meaning' else 'words' end);
end
$$;
comment on function public."agent-memory-read"(text, text, double precision, integer) is
    'The caller''s memories that are near to a question, as {"results": [{id, content, similarity, metadata, '
    'created_at}], "by": "meaning" or "words"}.';

create or replace function public."agent-memory-write"(
    content text,
    memory_type text,
    metadata jsonb default '{}',
    expires_at timestamptz default null
) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    whose constant uuid := memoryd.caller_or_401();
    stored public.agent_memory;
begin
    if content is null then
        raise exception 'content is null'
            using errcode = 'null_value_not_allowed', hint = 'Say what is to be remembered.';
    end if;
    perform memoryd.check_memory_type(memory_type, false);
    if jsonb_typeof(metadata) not in ('object', 'null') then
        raise exception 'metadata is of type %', jsonb_typeof(metadata)
            using errcode = 'invalid_parameter_value',
                  hint = 'Give an object, such as {"source": "user_input"}, or leave it out.';
    end if;
    if expires_at <= now() or expires_at > '9999-12-30 00:00+00' then
        raise exception 'expires_at is %', expires_at
            using errcode = 'invalid_parameter_value',
                  hint = 'Give a time to come, before the year 10000, or leave it out.';
    end if;
    insert into public.agent_memory as m (agent_id, user_id, memory_type, content, metadata, expires_at)
    values (memoryd.app_agent_id(), whose, memory_type, content, coalesce(nullif(metadata, 'null'), '{}'),
            expires_at)
    returning m.* into stored;
    -- Nothing is stored of a user who has switched memory off.
    return jsonb_build_object('memory', case when stored.id is not null then jsonb_build_object(
        'id', stored.id, 'user_id', stored.user_id, 'memory_type', stored.memory_type,
        'content', stored.content, 'metadata', stored.metadata, 'created_at', stored.created_at,
        'updated_at', stored.updated_at, 'expires_at', stored.expires_at) end);
end
$$;
comment on function public."agent-memory-write"(text, text, jsonb, timestamptz) is
    'Remembers something of the caller, and returns it as {"memory": {id, user_id, memory_type, content, '
    'metadata, created_at, updated_at, expires_at}}; null where they have switched memory off.';
