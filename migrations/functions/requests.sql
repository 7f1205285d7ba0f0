-- Requests to memory (memory_requests): their jobs, their answers, and what clients are told of them.

-- Refuses a statement if a request in it has options that no answer can follow. Queues a job for each new
-- request. Requests that read or delete all rows of a user take long, so they have a topic of their own:
-- no recall waits behind them. A dream takes minutes: dreams have their own topic, too. They do not take
-- turns with other users' requests.
create or replace function memoryd.requests_inserted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    of_users bigint;
    each record;
begin
    perform memoryd.refuse(f.fault, f.hint)
    from new_rows n
    cross join lateral memoryd.fault_of_options(n.kind, n.options) f
    where n.status = 'pending' and n.options <> '{}' and f.fault is not null;

    -- An account that was deleted is no user who waits: not what the deletion itself has queued. What is
    -- asked with its token, which is still valid, counts as ever.
    select count(n.user_id) into of_users
    from new_rows n
    where n.status = 'pending'
      and not (n.kind = 'erase' and pg_trigger_depth() > 1
               and exists (select from memoryd.settings s where s.key = 'deleted_account.' || n.user_id));
    if of_users > 0 then
        perform memoryd.check_pending(of_users);
    end if;
    for each in
        select k.topic,
               array_agg(n.id order by n.created_at, n.id) as ids,
               array_agg(n.user_id order by n.created_at, n.id) as users
        from new_rows n
        cross join lateral (
            select case when n.kind in ('export', 'erase') then 'user_data'
                        when n.kind = 'dream' then 'dream'
                        else 'request' end as topic
        ) k
        where n.status = 'pending'
        group by k.topic
    loop
        if each.topic = 'dream' then
            insert into memoryd.jobs (topic, ref)
            select 'dream', r.id from unnest(each.ids) with ordinality as r(id, nth) order by r.nth;
        else
            perform memoryd.queue_fairly(each.topic, each.ids, each.users);
        end if;
        perform memoryd.wake(each.topic);
    end loop;
    return null;
end
$$;

-- Tells clients that a request has its answer, or has failed.
create or replace function memoryd.requests_updated() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
begin
    perform memoryd.announce('request_finished', json_build_object('id', n.id)::text)
    from new_rows n join old_rows o using (id)
    where n.status in ('done', 'failed') and o.status = 'pending';
    return null;
end
$$;

-- The answer to a request, with the caller's rights; of a context a memoryd.composed, of an embedding null
-- where the model gave none. p_near: see memoryd.question().
create or replace function memoryd.answer(
    p_kind text, p_agent text, p_user uuid, p_query text, p_options jsonb, p_embedding vector, p_near jsonb
) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Null for a user who asks for themselves: recall then finds also what others share with them.
    whose constant uuid :=
        case when memoryd.caller_is_privileged() or p_user <> memoryd.caller_id() then p_user end;
    began constant timestamptz := clock_timestamp();
    asked memoryd.search_request;
    results memoryd.search_result[];
begin
    if p_kind in ('recall', 'prompt') then
        asked := memoryd.recall_request(
            null, p_query, p_agent, whose, memoryd.comparable(p_embedding),
            coalesce((p_options ->> 'match_count')::integer, 10),
            case when jsonb_typeof(p_options -> 'sources') = 'array'
                 then array(select jsonb_array_elements_text(p_options -> 'sources')) end,
            coalesce(nullif(p_options -> 'filter', 'null'), '{}'), p_options, p_near);
        if p_kind = 'prompt' then
            results := array(select s from memoryd.search_prompt(asked) s);
            perform memoryd.log_recall(asked, results, began);
        else
            results := array(select r from memoryd.recall_and_log(asked) r);
        end if;
        return (
            select coalesce(
                jsonb_agg(
                    jsonb_build_object(
                        'source', f.source, 'id', f.id, 'content', f.content, 'score', f.score,
                        'similarity', memoryd.calibrated(f.similarity, 0, 1),
                        'metadata', f.metadata, 'created_at', f.created_at)
                    order by f.ordinality),
                '[]')
            from unnest(results) with ordinality f);
    end if;
    return case p_kind
        when 'context' then
            to_jsonb(memoryd.compose(
                p_agent, p_query, p_user, p_user is not null, p_embedding, null,
                memoryd.conditions_of(p_options)))
        when 'embed' then
            case when p_embedding is not null
                 then jsonb_build_object('embedding', p_embedding::text, 'near', p_near) end
        when 'export' then public.export_user_memory(p_user)
        -- Without the paths: they are for the program that deletes the files, not for the user.
        when 'erase' then public.erase_user_memory(p_user) - 'replica_paths'
    end;
end
$$;

-- answer() with a user's identity: with the role and the claims that the user's own login would have. Both
-- are reset at the end of the call.
create or replace function memoryd.answer_as_user(
    p_kind text, p_agent text, p_user uuid, p_query text, p_options jsonb, p_embedding vector, p_near jsonb
) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Set and reset here, not by options of the function (`set role = ...`): for these, the role that
    -- creates the function would need the rights already.
    role_before constant text := current_setting('role');
    claims_before constant text := coalesce(current_setting('request.jwt.claims', true), '');
    sub_before constant text := coalesce(current_setting('request.jwt.claim.sub', true), '');
    answer jsonb;
begin
    perform set_config('request.jwt.claims',
                       json_build_object('sub', p_user, 'role', 'memoryd_user')::text, true),
            set_config('request.jwt.claim.sub', '', true),
            set_config('role', 'memoryd_user', true);
    answer := memoryd.answer(p_kind, p_agent, p_user, p_query, p_options, p_embedding, p_near);
    perform set_config('role', role_before, true),
            set_config('request.jwt.claims', claims_before, true),
            set_config('request.jwt.claim.sub', sub_before, true);
    return answer;
end
$$;

-- Has a daemon embed a question. Without a request it makes one, unless no daemon runs, nothing can be
-- written, or the local embedder's tokens are still to come. With one it waits until a second after that,
-- returns what came, and deletes the request; one of another question brings nothing. It runs with the
-- owner's rights: clients see no daemons, and may delete no requests. Of these it touches only the caller's
-- own.
create or replace function memoryd.embed_by_daemon(
    p_agent text, p_user uuid, p_query text, inout request uuid, out embedding vector, out near jsonb)
language plpgsql volatile security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_variable
declare
    caller constant memoryd.caller := memoryd.current_caller();
    whose constant uuid := case when caller.privileged then p_user else caller.user_id end;
    patience constant interval := interval '1 second';
    until timestamptz := clock_timestamp() + patience;
    asked public.memory_requests;
begin
    if request is null then
        if current_setting('transaction_read_only') = 'off' and exists (
            select from memoryd.settings s
            where s.key = 'embedder' and s.value <> '"local/wordllama-256"') and exists (
            select from memoryd.daemons d
            where (d.seen_at > now() - interval '90 seconds' or d.wake_up = 'rest' and d.backend is not null)
              and (d.backend is null or exists (select from pg_stat_get_activity(d.backend)))) then
            insert into public.memory_requests (kind, agent_id, user_id, query)
            values ('embed', p_agent, whose, left(p_query, 32768))
            returning id into request;
        end if;
        return;
    end if;
    loop
        select r.* into asked from public.memory_requests r
        where r.id = request and r.kind = 'embed' and r.user_id is not distinct from whose
              and r.query = left(p_query, 32768);
        until := least(until, asked.created_at + patience);
        exit when asked.status is distinct from 'pending' or clock_timestamp() > until;
        perform pg_sleep(0.002);
    end loop;
    -- One that a daemon is just answering, or another call deletes, is not waited for: it is deleted later.
    delete from public.memory_requests r
    where r.id in (select l.id from public.memory_requests l where l.id = asked.id for update skip locked);
    request := null;
    embedding := memoryd.comparable((asked.result ->> 'embedding')::vector);
    near := nullif(asked.result -> 'near', 'null');
exception when configuration_limit_exceeded then
    request := null;
end
$$;

-- recall(), build_context(), what explains them, "agent-memory-read"() or search_keys() by meaning, also
-- where a daemon has to embed the question: then the first call returns a request, which no daemon sees
-- before it is committed, and the second one, with this request, what was found.
create or replace function public.ask_memory(
    kind text, query text, agent_id text default null, user_id uuid default null,
    options jsonb default '{}', request uuid default null) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_variable
declare
    given constant jsonb := coalesce(options, '{}');
    by_meaning boolean := memoryd.embeds_here();
    embedding vector;
    near jsonb;
    result jsonb;
begin
    if kind is null or kind not in (
        'recall', 'prompt', 'context', 'read', 'keys', 'explain_recall', 'explain_context') then
        raise exception 'unknown kind %', coalesce(quote_literal(left(kind, 100)), 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Kinds: recall, prompt, context, read, keys, explain_recall, explain_context.';
    end if;
    perform memoryd.refuse(
        'options are of type ' || jsonb_typeof(given), 'Give an object, such as {"match_count": 5}.')
    where jsonb_typeof(given) <> 'object';
    perform memoryd.refuse(n || ' is ' || left((given -> n)::text, 100), 'Give a whole number, 0 or more.')
    from unnest('{match_count,match_offset}'::text[]) n where given ->> n !~ '^\d{1,9}$';
    if not by_meaning and not memoryd.asks_nothing(coalesce(query, '')) then
        select d.request, d.embedding, d.near into request, embedding, near
        from memoryd.embed_by_daemon(agent_id, user_id, query, request) d;
        if request is not null then
            return jsonb_build_object('request', request);
        end if;
        by_meaning := embedding is not null;
    end if;
    if kind in ('recall', 'prompt') then
        perform set_config('memoryd.last_recall', '', true);
        result := memoryd.answer(kind, agent_id, user_id, query, given, embedding, near);
    elsif kind = 'keys' then
        result := to_jsonb(array(select k from public.search_keys(
            given ->> 'prefix', query, agent_id, user_id, given -> 'filter',
            coalesce(given ->> 'match_count', '10')::integer,
            coalesce(given ->> 'match_offset', '0')::integer, embedding) k));
    elsif kind = 'explain_recall' then
        result := to_jsonb(array(select e from public.explain_recall(
            query, agent_id => agent_id, user_id => user_id, query_embedding => embedding,
            options => given) e));
    else
        perform set_config('memoryd.question_embedding', coalesce(embedding::text, ''), true);
        result := case kind
            when 'context' then to_jsonb(public.build_context(agent_id, query, user_id, given))
            when 'explain_context' then to_jsonb(array(
                select e from public.explain_context(agent_id, query, user_id, given) e))
            else public."agent-memory-read"(
                query => query, memory_type => given ->> 'memory_type',
                match_threshold => coalesce(given ->> 'match_threshold', '-infinity')::double precision,
                match_count => coalesce(given ->> 'match_count', '5')::integer) -> 'results' end;
        perform set_config('memoryd.question_embedding', '', true);
    end if;
    return jsonb_build_object('by', case when by_meaning then 'meaning' else 'words' end, 'result', result)
        || case when kind in ('recall', 'prompt') then jsonb_build_object(
               'recall_id', nullif(current_setting('memoryd.last_recall', true), '')) else '{}' end;
end
$$;
comment on function public.ask_memory(text, text, text, uuid, jsonb, uuid) is
    'recall, prompt (a recall for a chatbot), context, explain_recall, explain_context, read '
    '(agent-memory-read) or keys (search_keys: options prefix, filter, match_count, match_offset) as '
    '{"by": "meaning" or "words", "result": ...}. '
    '{"request": id}: a daemon embeds the question; call again with this request, in a new transaction.';

-- If the job of a request becomes a dead letter, the request fails with the job's error, so that the client
-- does not wait for ever.
create or replace function memoryd.request_died() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update public.memory_requests r
    set status = 'failed', error = 'given up: ' || left(new.error, 500), finished_at = clock_timestamp()
    where r.id = new.ref and r.status = 'pending';
    return null;
end
$$;
