-- The whole search: from a question to the rows that the caller may read, with the parts of each score.

-- A request with what its caller may search; null where nothing may be found: for an end user without an id,
-- and of a user who has switched memory off. The scopes of an end user are their own, those of their groups,
-- and 0, which is shared: they may read every row of these, but in scope 0 only rows that they are granted. A
-- privileged caller may search all scopes (null). Scope 0 is closed to a user to whom nothing is granted, and
-- who shares nothing: so not even the time that a search takes tells what others share.
create or replace function memoryd.open_request(p_request memoryd.search_request)
returns memoryd.search_request
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    opened memoryd.search_request := p_request;
    caller memoryd.caller := memoryd.current_caller();
    here constant text := (p_request.conditions).project;
    asked record;
    granted uuid;
begin
    if p_request.on_behalf is not null and caller.is_service then
        caller := (p_request.on_behalf, false, false)::memoryd.caller;
    end if;
    asked := memoryd.scopes_asked(caller, p_request.agent, p_request.about, p_request.sources, here);
    opened.reader := caller;
    -- Whether it goes only to rows without an owner.
    opened.unowned := caller.privileged and p_request.about is null and p_request.agent is not null;
    opened.sources := case
        when caller.privileged then coalesce(p_request.sources, memoryd.source_names())
        when p_request.sources is null then memoryd.source_names(true)
        else array(select s from unnest(p_request.sources) s where s = any(memoryd.source_names(true))) end;
    opened.groups := asked.groups;
    if (not caller.privileged and caller.user_id is null)
       or memoryd.memory_is_off(coalesce(p_request.about, caller.user_id)) then
        return null;
    end if;
    opened.scopes := case
        when caller.privileged then asked.scopes
        when p_request.about <> caller.user_id then '{}'
        else array_remove(asked.scopes, 0) end;
    -- A service that asks about a user has that user's rights to what is shared.
    granted := case when caller.privileged then p_request.about else caller.user_id end;
    if granted is not null
       and (exists (select from public.user_memory_access a
                    where a.user_id = granted and a.visibility_scope <> 'own')
            or memoryd.shares(granted)) then
        opened.scopes := opened.scopes || 0::bigint;
        opened.reader := (granted, false, false)::memoryd.caller;
    end if;
    opened.access := case when not (opened.reader).privileged
                          then memoryd.access_of((opened.reader).user_id, here) end;
    -- A filter may exclude many of the nearest. Without one, 100 find no more among the best twenty than 60
    -- (`python -m benchmarks.search.evidence`). The count is twice what is shown; of a context it is what is
    -- shown of three kinds.
    opened.reach := case when p_request.filter <> '{}' then 4000
                         when p_request.by_kind then 60
                         else least(4000, greatest(60, p_request.count / 2)) end
                    + coalesce(cardinality((p_request.conditions).exclude), 0);
    return opened;
end
$$;

-- The rows that answer a request, best first, with the parts of their scores and without their contents. The
-- client is told once a session that a question was searched without its meaning. The only function of the
-- search that runs with the owner's rights: of a row it gives back its id, its score and its time, and only
-- of rows that the caller may read.
--
-- The settings apply to all functions that are called from here. Their plans are made once in a session.
-- Without the settings, a generic plan, which does not know how few rows are wanted, may read a whole table;
-- and with a million rows the planner would start parallel workers, which takes longer than the search. So
-- would compiling the plans (jit), which Postgres does for what looks expensive, as a plan without a table
-- scan does.
create or replace function memoryd.find(p_request memoryd.search_request)
returns setof memoryd.search_result
language plpgsql stable security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set max_parallel_workers_per_gather = 0
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
    request memoryd.search_request;
    question memoryd.question;
    fresh memoryd.passage[];
    of_time memoryd.search_result[] := '{}';
    -- 0 for a question of 20 words, 1 for a message of 40; two characters of a script without spaces are one.
    long constant double precision := greatest(0, least(1, regexp_count(
        coalesce(p_request.query, ''),
        replace('[#]{1,2}|[^\W#]+', '#', '\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff'))
        / 20.0 - 1));
    -- The local model has learned English: in other languages it finds all texts near each other. learned:
    -- whether similarity alone says that a row fits.
    learned constant boolean := not memoryd.embeds_here()
        or memoryd.language_of(p_request.query) = 'english'
           and (memoryd.words_of_question(p_request.query, 'english')).english;
begin
    -- Before anything is looked up; also where it says no more than that memory is off.
    perform memoryd.log_admin_read('lexeme_statistics', null)
    where caller.privileged and not caller.is_service;
    request := memoryd.open_request(p_request);
    -- Where nothing is asked, or nothing is in these scopes, the question is not read. The scopes are not
    -- looked at for what is shared with an end user, which would tell whether others share anything.
    if (request.reader).privileged is null
       or request.embedding is null and memoryd.asks_nothing(coalesce(request.query, ''))
       or request.scopes is not null and ((request.reader).privileged or 0 <> all (request.scopes))
          and not exists (
              select from unnest(request.scopes) as s(scope)
              cross join lateral ((select from memoryd.entries e where e.scope = s.scope limit 1)
                                  union all
                                  (select from memoryd.unindexed u where u.scope = s.scope limit 1)) e) then
        return;
    end if;
    request.shown := coalesce(request.shown, request.count);
    question := memoryd.question(
        request.reader, request.query, request.scopes, request.near, (request.conditions).asked_at);
    if request.embedding is null then
        request.embedding := memoryd.comparable(memoryd.embed(memoryd.without_names(
            request.query, question.speakers, case when (request.reader).privileged then request.scopes
                else array_remove(request.scopes, 0) end)));
    end if;
    fresh := array(select f from memoryd.fresh_passages(request) f);
    if question.only_times and request.ids is null then
        of_time := array(select t from memoryd.rows_of_time(request, question, fresh) t);
        return query select t.* from unnest(of_time) t;
        if cardinality(of_time) >= request.shown then return; end if;
        -- Of a year to come nothing is written yet, and no text keeps its days: its words say what is of it.
        question.only_times := of_time <> '{}' or upper(question.times) - lower(question.times) <= 31
            or lower(question.times) <= coalesce((request.conditions).asked_at, now());
    end if;
    if request.embedding is null and coalesce(current_setting('memoryd.told_by_words', true), '') = ''
       and of_time = '{}' and not memoryd.embeds_here() then
        perform set_config('memoryd.told_by_words', 'on', false);
        raise notice 'the question is compared by its words only: the database cannot embed it'
            using hint = 'By meaning: ask_memory(), as the clients ask, memory_requests, memoryd '
                         'recall, or its embedding. memoryd doctor says which model embeds.';
    end if;
    return query
    select h.*
    from memoryd.rank_passages(
        request, question, memoryd.candidates(request, question), fresh, long,
        -- Of a long question a smaller part. Where words have no ends, more of their letters meet by chance.
        case when learned then 0 when request.query ~ '[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{2}' then 0.45
             else least(0.1, 0.6 / cardinality(question.tops)) end) h
    where not exists (select from unnest(of_time) t where t.id = h.id and t.source = h.source)
    order by greatest(h.relevance * h.weight, case when h.shares = 2 then
                 max(h.relevance * h.weight) filter (where h.shares = 0) over () end) desc,
             h.created_at desc, h.id
    limit request.count;
end
$$;

-- The memories that are linked to one of the best results (p_memories) by a strength of 0.3 or more, each
-- with the strength of its strongest link: it belongs to the results because of that, even if it has none of
-- the question's words. brought: by_kind, it is known, and linked by 0.4 to what happened. created_at,
-- relevance, weight: of those that meet the request and are not in p_found; null of all others. p_asked: the
-- question's keywords (null with an embedding). Reads with the caller's rights.
create or replace function memoryd.linked_rows(
    p_request memoryd.search_request, p_memories uuid[], p_found uuid[], p_asked text[])
returns table (id uuid, strength double precision, brought boolean, created_at timestamptz,
               relevance double precision, weight double precision)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    wanted constant jsonb := p_request.filter;
    conditions constant memoryd.conditions := p_request.conditions;
    unowned constant boolean := memoryd.caller_is_privileged()
        and p_request.about is null and p_request.agent is not null;
begin
    if p_memories = '{}' then
        return;
    end if;
    return query
    with links as materialized (
        select l.id, max(l.strength) as strength, bool_or(
                   p_request.by_kind is true and l.strength >= 0.4 and exists (
                       select from public.agent_memory m join public.agent_memory h on h.id = l.beside
                       where m.id = l.id and memoryd.kin_of('memory', m.kind) = 'is known'
                         and memoryd.kin_of('memory', h.kind) = 'happened')) as brought
        from (select a.related_memory_id as id, a.strength, a.memory_id as beside
              from public.memory_associations a where a.memory_id = any(p_memories)
              union all
              select a.memory_id, a.strength, a.related_memory_id
              from public.memory_associations a where a.related_memory_id = any(p_memories)) l
        where l.strength >= 0.3
        group by l.id
    )
    select l.id, l.strength, l.brought, r.created_at, r.part, r.weight
    from links l
    left join lateral (
        select m.created_at, m.weight, (
                   select coalesce(count(*)::double precision / nullif(cardinality(p_asked), 0), 0)
                   from unnest(p_asked) as w(word) where w.word = any(m.keywords)) as part
        from memoryd.source_memory m
        where m.id = l.id and m.id <> all (p_found) and m.is_current
          and (p_request.about is null or m.owner_id = p_request.about)
          and (not unowned or m.owner_id is null)
          and (p_request.agent is null or m.agent_id is null or m.agent_id = p_request.agent)
          and (m.expires_at is null or m.expires_at > now())
          and (wanted = '{}' or m.metadata @> wanted)
          and memoryd.in_project(m.row_metadata, conditions.project)
          and (conditions.exclude is null or m.id::text <> all (conditions.exclude))
          and memoryd.meets(conditions, m.created_at, null, null, null, null)
          and (conditions.as_of is null
               or coalesce(m.valid_from, m.created_at) <= conditions.as_of and not exists (
                      select from public.agent_memory o
                      where o.id = m.id and o.valid_to <= conditions.as_of))
        offset 0) r on true;
end
$$;

-- The best rows for a request, without their contents: what memoryd.find() has found, and what is linked to
-- the best memories of it. A link counts its strength times link_weight, less what a row is worth without it:
-- so it brings a memory in, and changes nothing among those that answer the question. by_kind: a link to what
-- happened brings what is known, however little it fits. A long question goes on with something recent: up to
-- 0.2 more for what is near now, or the time at which it is asked.
--
-- By words alone the order is the same, by how rare the words are. The score is then the designs' formula:
-- the share of keywords, a bonus for the last three days, and the link; at most the score of the rows above
-- that are brought.
create or replace function memoryd.best_rows(
    p_request memoryd.search_request, p_found memoryd.search_result[])
returns setof memoryd.search_result
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    -- Of a time that alone is asked about: their order is that of time.
    of_time constant boolean := exists (select from unnest(p_found) f where f.shares = 3);
    by_words_alone constant boolean :=
        p_request.embedding is null and not of_time and not memoryd.embeds_here();
    link_weight constant double precision := 0.2;
    asked_keywords constant text[] := case when by_words_alone then public.extract_keywords(
        (memoryd.words_of_question(p_request.query, memoryd.language_of(p_request.query))).telling) end;
    only_fitting constant boolean := coalesce(p_request.relevant_only or p_request.by_kind, false);
    asked_at constant double precision := extract(
        epoch from coalesce((p_request.conditions).asked_at, (p_request.conditions).until, now()));
begin
    return query
    with found as materialized (select * from unnest(p_found)), keyword_parts as materialized (
        -- The share that a row has among its keywords, unless its text has one of the words beyond them.
        select s.source, s.id, count(*)::float8 / cardinality(asked_keywords) as part
        from memoryd.show_rows(array(select f.source from found f), array(select f.id from found f)) s
        cross join unnest(asked_keywords) as w(word) where asked_keywords <> '{}' and (
            w.word = any(s.keywords) or strpos(lower(s.searched_text), w.word) > 0)
        group by s.source, s.id having bool_and(w.word = any(s.keywords))
    ), ranked as materialized (
        select h.source, h.id, h.similarity, h.created_at, h.lexical, h.dense, h.prior, h.named, h.timed,
               h.session, coalesce(k.part, h.relevance) as relevance, h.weight, h.recency as long, h.shares,
               case when h.source = 'insight' then k.part end as share, h.relevance as fit,
               case when k.part >= case when h.left_out like 'nothing%' then 1 else 0.25 end then null
                    else h.left_out end as left_out
        from found h left join keyword_parts k using (source, id)
    ), links as materialized (
        select l.* from memoryd.linked_rows(p_request, array(
            select r.id from ranked r where r.source = 'memory' and r.relevance > 0.3 and (
                r.left_out is null or not only_fitting) order by r.relevance desc limit 20),
            array(select r.id from ranked r where r.source = 'memory'), asked_keywords) l
    ), joined as (
        select r.*, link_weight * coalesce(l.strength, 0) as link, l.brought
        from ranked r left join links l on l.id = r.id and r.source = 'memory' union all
        select 'memory', l.id, null, l.created_at, 0, 0, 0, 0, 0, 0, l.relevance, l.weight, 0, 0, null,
               l.relevance, case when l.strength < 0.5 then 'linked too loosely' end,
               link_weight * l.strength, l.brought
        from links l where l.created_at is not null
    ), summed as (
        select j.*, r.new, case when j.brought is not true then j.left_out end as why,
               o.fitting, case when by_words_alone then j.relevance * j.weight + r.new + j.link
                               else o.fitting end as formula
        from joined j cross join lateral (
            select case when of_time then 0 else greatest(
                       case when j.created_at > now() - interval '24 hours' then 0.15
                            when j.created_at > now() - interval '72 hours' then 0.05 else 0 end,
                       0.2 * j.long / (1 + abs(asked_at - extract(epoch from j.created_at)) / 3456000))
                   end as new, coalesce(j.share, j.fit) * j.weight as own offset 0) r
        cross join lateral (select r.own * (1 + r.new) + greatest(0, j.link - r.own) as fitting offset 0) o
        where j.relevance > 0 or j.link > 0
    ), lifted as (
        select s.*, greatest(s.fitting, case when s.shares = 2 then
                   max(s.fitting) filter (where s.shares = 0) over () end) as rank,
               greatest(s.formula, case when s.shares = 2 then
                   max(s.formula) filter (where s.shares = 0) over () end) as score
        from summed s
    ), best as materialized (
        select l.* from lifted l where l.score >= coalesce(p_request.min_score, 0)
        order by p_request.by_kind is true and l.why is null desc, l.rank desc, l.shares desc,
                 l.created_at desc, l.id limit p_request.count)
    select b.source, b.id, null, least(1, b.score, min(b.score) filter (
               where b.why is null or not only_fitting) over above),
           b.similarity, null::jsonb, b.created_at, b.lexical, b.dense, b.prior, b.named, b.timed,
           b.session, b.relevance, b.weight + coalesce((b.score - b.formula) / nullif(b.relevance, 0), 0),
           b.new * case when by_words_alone then 1 else b.relevance * b.weight end,
           greatest(0, b.link - case when by_words_alone then 0 else b.relevance * b.weight end),
           b.shares, b.why from best b where b.why is null or not only_fitting or p_request.explained
    window above as (order by b.rank desc, b.shares desc, b.created_at desc, b.id)
    order by b.rank desc, b.shares desc, b.created_at desc, b.id;
end
$$;

-- What is known of a user: their facts and preferences that stand, the newest first, in at most `profile`
-- words (two characters of a script without spaces count as one). Not those of another agent or project, and
-- none that is marked {"index": false}. As results of a search, read with the caller's rights.
create or replace function memoryd.profile_of(
    p_user uuid, p_agent text, p_conditions memoryd.conditions)
returns setof memoryd.search_result
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    at constant timestamptz := p_conditions.as_of;
    unspaced constant text := '\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff';
    space integer := p_conditions.profile;
    told text[] := '{}';
    fact memoryd.search_result;
    length integer;
begin
    if coalesce(space, 0) = 0 or p_user is null or memoryd.memory_is_off(p_user) then
        return;
    end if;
    for fact in
        select 'memory', m.id, m.content, 0, null,
               m.metadata || jsonb_strip_nulls(jsonb_build_object(
                   'kind', m.kind, 'memory_type', m.memory_type, 'profile', true)),
               m.created_at, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, null
        from public.agent_memory m
        where m.user_id = p_user
          and (m.kind = 'fact' and m.source is distinct from 'anchor' or m.memory_type = 'user_preferences')
          and not m.metadata @> '{"index": false}'
          and (p_agent is null or m.agent_id in (p_agent, '_shared'))
          and (m.expires_at is null or m.expires_at > now())
          and (m.superseded_by is null or at is not null)
          and coalesce(m.valid_from, m.created_at) <= coalesce(at, now())
          and (m.valid_to is null or m.valid_to > coalesce(at, now()))
          and memoryd.in_project(m.metadata, p_conditions.project)
        order by m.created_at desc, m.id
        limit 1000
    loop
        length := regexp_count(fact.content, '[' || unspaced || ']{1,2}|[^\s' || unspaced || ']+');
        continue when length > space or lower(fact.content) = any(told);
        space := space - length;
        told := told || lower(fact.content);
        return next fact;
        exit when space = 0;
    end loop;
end
$$;

-- The whole search: the results of a request, best first, behind what is known of the user (profile). Nothing
-- is relevant to small talk. More is looked for than is asked for, since some rows fall behind linked ones.
-- With `around`, messages that are found come as pieces of their conversation, each as good as its best
-- message: so more are searched for than are shown. The settings: as of memoryd.find().
create or replace function memoryd.search(p_request memoryd.search_request)
returns setof memoryd.search_result
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set max_parallel_workers_per_gather = 0
as $$
declare
    around constant integer := coalesce(p_request.around, 0);
    profile constant memoryd.search_result[] := array(
        select p from memoryd.profile_of(
            coalesce(p_request.about, memoryd.caller_id()), p_request.agent, p_request.conditions) p);
    small_talk constant boolean := p_request.relevant_only is true
        and not memoryd.is_blank(coalesce(p_request.query, ''))
        and memoryd.is_small_talk(memoryd.plain(p_request.query), '{}');
    asked memoryd.search_request := p_request;
    sought memoryd.search_request := p_request;
    found memoryd.search_result[];
begin
    return query select * from unnest(profile);
    if small_talk and p_request.explained is not true then
        return;
    end if;
    asked.count := p_request.count + cardinality(profile);
    if around > 0 then
        asked.count := least(3 * asked.count, 1000);
    end if;
    sought.count := greatest(100, 2 * asked.count);
    sought.shown := p_request.count;
    found := array(select f from memoryd.find(sought) f);
    return query
    with best as materialized (
        select b.*, row_number() over () as nth from memoryd.best_rows(asked, found) b
    ), shown as materialized (
        select b.nth, b.source, b.id, s.content, case when b.source = 'document'
                   then s.metadata || memoryd.document_of_chunk(b.id) else s.metadata end as metadata
        from best b
        join memoryd.show_rows(array(select b.source from best b), array(select b.id from best b)) s
            using (source, id)
        where cardinality(profile) = 0 or b.source <> 'memory'
           or lower(s.content) <> all (select lower(p.content) from unnest(profile) p)
    ), pieces as materialized (
        select m.ids[p.number] as id, p.content, p.message_ids
        from (select array_agg(s.id order by s.nth) as ids from shown s
              where s.source = 'conversation' and around > 0) m
        cross join lateral memoryd.show_pieces(p_request, m.ids) p
        where m.ids is not null
    )
    select b.source, b.id, coalesce(p.content, s.content), b.score, b.similarity,
           case when p.id is null then s.metadata
                else s.metadata || jsonb_build_object('message_ids', p.message_ids) end,
           b.created_at, b.lexical, b.dense, b.prior, b.named, b.timed, b.session, b.relevance, b.weight,
           b.recency, b.association, b.shares, case when small_talk then 'small talk' else b.left_out end
    from best b
    join shown s using (nth)
    left join pieces p on p.id = b.id
    where b.source <> 'conversation' or p.id is not null or around = 0
    order by b.nth
    limit p_request.count;
end
$$;
