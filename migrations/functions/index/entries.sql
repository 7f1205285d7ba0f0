-- Writing memoryd.entries: the daemon writes the passages of rows, with their lexemes, weights and lengths;
-- triggers write what else a row says.

-- A lexeme's index in a sparse vector: 1 to a billion, which is pgvector's limit.
create or replace function memoryd.sparse_index(p_lexeme text) returns integer
language sql immutable parallel safe
return ((hashtextextended(p_lexeme, 0) & 2147483647) % 1000000000 + 1)::integer;

-- The lexemes by which passages are found, and their weights: how often a lexeme occurs in the passage, with
-- less for each further time (BM25's term frequency, k1 = 1.2). The other factors of BM25, the inverse
-- document frequency and the length, come with the question: so no passage is written again because others
-- are added. Columns: a passage each, with its scope, when it was written and since when it is valid. Where a
-- short text is not of the language that more than half of its scope are in, these included, one word alone
-- does not decide.
-- times: the days that a passage is about: those that its text names, as of when it was written, and the day
-- that it is valid from. Of longer times than a month nothing is kept: too much is about them. asks: it ends
-- as a question, which rarely answers one.
create or replace function memoryd.weigh_passages(
    p_texts text[], p_scopes bigint[], p_written timestamptz[], p_valid_from timestamptz[])
returns table (nth bigint, language text, lexemes tsvector, weights sparsevec, length integer,
               times datemultirange, asks boolean)
language sql stable parallel safe
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
    with alone as materialized (
        select t.*, a.allowed, memoryd.language_of(t.text, a.allowed) as language
        -- Read once, not for each text.
        from (select (select nullif(array(select jsonb_array_elements_text(s.value)), '{}')
                      from memoryd.settings s where s.key = 'languages') as allowed offset 0) a
        cross join unnest(p_texts, p_scopes, p_written, p_valid_from) with ordinality
             as t(text, scope, written, valid_from, nth)
    ), usual as materialized (
        select c.scope, c.language
        from (select n.scope, n.language, sum(n.passages) as passages,
                     sum(sum(n.passages)) over (partition by n.scope) as of
              from (select l.scope, l.language, count(*) as passages from alone l group by 1, 2
                    union all
                    select s.scope, s.language, s.passages
                    from (select distinct l.scope from alone l) l
                    join memoryd.scope_statistics s on s.scope = l.scope) n
              group by 1, 2) c
        where c.of > 2 and c.passages * 2 > c.of and c.language <> 'simple'
    ), known as materialized (
        select l.nth, l.text, case when u.language <> l.language and length(l.text) <= 200
                                   then memoryd.language_of(l.text, l.allowed, u.language)
                                   else l.language end as language
        from alone l left join usual u on u.scope = l.scope
    ), texts as materialized (
        select k.nth, k.language, memoryd.lexemes_in(k.text, k.language, true) as lexemes
        from known k
    ), counts as (
        select t.nth, memoryd.sparse_index(l.lexeme) as index, sum(cardinality(l.positions)) as count,
               -- A word with its marks is there a second time, and has one length.
               bool_or(octet_length(l.lexeme) > length(l.lexeme)
                   and l.lexeme !~ '^[\u00df-\u024f]$' and l.lexeme ~
                   '[\u00df-\u00f6\u00f8-\u0233\u0300-\u036f'
                   '\u0386-\u0390\u03aa-\u03b0\u03ca-\u03ce\u0451\u1e00-\u1fff]') as again
        from texts t cross join lateral unnest(t.lexemes) l
        group by 1, 2
    ), weighed as (
        select c.nth, c.index, (c.count * 2.2 / (c.count + 1.2))::real as weight, c.count, c.again,
               row_number() over (partition by c.nth order by c.count desc, c.index) as rank
        from counts c
    ), vectors as (
        select w.nth, coalesce(sum(w.count) filter (where not w.again), 0)::integer as length,
               ('{' || string_agg(w.index || ':' || w.weight, ',') || '}/1000000000')::sparsevec as weights
        from weighed w
        -- The largest weights: a sparsevec has at most 16,000.
        where w.rank <= 16000
        group by w.nth
    )
    select t.nth, t.language, t.lexemes, coalesce(v.weights, '{}/1000000000'), coalesce(v.length, 0), (
               select nullif(range_agg(d.days), '{}')
               from (select n.days
                     from unnest((memoryd.times_in(l.text, memoryd.day_of(l.written), true)).days) as n(days)
                     where upper(n.days) - lower(n.days) <= 31
                     union all
                     select daterange(s.day, s.day, '[]') from memoryd.day_of(l.valid_from) as s(day)
                     where s.day is not null) d),
           right(rtrim(right(l.text, 100)), 1) in ('?', '？', '؟')
    from texts t join alone l using (nth) left join vectors v using (nth)
$$;

-- Of a row's metadata what decides who may find it: the project that it names. Inlined.
create or replace function memoryd.grants_metadata(p_metadata jsonb) returns jsonb
language sql immutable parallel safe
return case when p_metadata ? 'project' then jsonb_build_object('project', p_metadata -> 'project')
            else '{}' end;

-- The scopes of the groups of these rows, in their order: null where a row is in none. Knowledge has the
-- scope of its organisation, so that a search of all scopes finds only what is the caller's
-- (memoryd.may_find).
create or replace function memoryd.groups_of(p_source text, p_ids uuid[]) returns bigint[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_source = 'knowledge' then
        return array(
            select k.scope from unnest(p_ids) with ordinality as r(id, nth)
            left join public.shared_knowledge k on k.id = r.id
            order by r.nth);
    end if;
    if p_source <> 'conversation' then
        return array_fill(null::bigint, array[cardinality(p_ids)]);
    end if;
    return array(
        select memoryd.group_scope(m.chat_id, m.role)
        from unnest(p_ids) with ordinality as r(id, nth)
        left join public.conversation_messages m on m.id = r.id
        order by r.nth);
end
$$;

-- Brings what the entries of these rows say of their rows up to date: scope, rights, times, positions.
-- p_scopes: the scopes that the entries have had until now.
create or replace function memoryd.refresh_entries(p_source text, p_ids uuid[], p_scopes bigint[])
returns void
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    update memoryd.entries e
    set scope = s.scope, group_scope = case when p_source = 'knowledge' then s.scope else e.group_scope end,
        owner_id = s.owner_id, agent_id = s.agent_id, access_level = s.access_level,
        visibility_tags = s.visibility_tags,
        grants_metadata = memoryd.grants_metadata(s.row_metadata),
        is_current = s.is_current, expires_at = s.expires_at, session_id = s.session_id,
        position = s.position, role = s.role, created_at = s.created_at, weight = s.weight,
        embedding = case when e.passage = 0 and not e.given_outdated
                         then coalesce(l2_normalize(s.given_embedding)::halfvec, e.embedding)
                         else e.embedding end
    from unnest(p_ids, p_scopes) as r(id, scope)
    cross join lateral (select * from memoryd.searchable t where t.source = p_source and t.id = r.id) s
    where e.scope = r.scope and e.id = r.id and e.source = p_source
      and ((s.scope, s.owner_id, s.agent_id, s.access_level, s.visibility_tags, s.is_current, s.expires_at,
            s.session_id, s.position, s.role, s.created_at, s.weight::real)
           is distinct from
           (e.scope, e.owner_id, e.agent_id, e.access_level, e.visibility_tags, e.is_current, e.expires_at,
            e.session_id, e.position, e.role, e.created_at, e.weight)
           or memoryd.grants_metadata(s.row_metadata) <> e.grants_metadata
           or (e.passage = 0 and not e.given_outdated
               and l2_normalize(s.given_embedding)::halfvec <> e.embedding));
end
$$;

-- Deletes the entries of these rows, each with its scope. A message in a group has entries in two scopes.
create or replace function memoryd.delete_entries(p_source text, p_ids uuid[], p_scopes bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from memoryd.entries e
    using unnest(p_ids, p_scopes) as r(id, scope)
    where e.scope = r.scope and e.id = r.id and e.source = p_source;
    delete from memoryd.unindexed u
    using unnest(p_ids, p_scopes) as r(id, scope)
    where u.scope = r.scope and u.id = r.id and u.source = p_source;
end
$$;

-- Writes the entries of messages in the scopes of their groups: copies of those that they have by themselves.
create or replace function memoryd.copy_to_groups(p_ids uuid[], p_scopes bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    execute (
        select format(
            'insert into memoryd.entries (%s) select %s
             from unnest($1, $2) as r(id, scope)
             join memoryd.entries e on e.scope = r.scope and e.id = r.id and e.source = ''conversation''
             where e.group_scope is not null',
            string_agg(quote_ident(a.attname), ', ' order by a.attnum),
            string_agg(case a.attname when 'scope' then 'e.group_scope'
                                      else 'e.' || quote_ident(a.attname) end, ', ' order by a.attnum))
        from pg_attribute a
        where a.attrelid = 'memoryd.entries'::regclass and a.attnum > 0 and not a.attisdropped
          and a.attgenerated = '')
    using p_ids, p_scopes;
end
$$;

-- Writes them again after the messages have changed, with the groups that the messages have now. Those of
-- before are deleted.
create or replace function memoryd.refresh_copies(p_ids uuid[], p_scopes bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    update memoryd.entries e set group_scope = r.group_scope
    from unnest(p_ids, p_scopes, memoryd.groups_of('conversation', p_ids)) as r(id, scope, group_scope)
    where e.scope = r.scope and e.id = r.id and e.source = 'conversation'
      and e.group_scope is distinct from r.group_scope;
    perform memoryd.copy_to_groups(p_ids, p_scopes);
end
$$;

-- Those of these rows whose text is still the one with this hash (null: any text), locked against changes;
-- and those that another transaction has locked. Rows whose text is another by now are left to the job of
-- that change.
create or replace function memoryd.lock_to_index(
    p_source text, p_ids uuid[], p_hashes bigint[], out mine uuid[], out locked_elsewhere uuid[])
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    execute format(
        'with unchanged as materialized (
             select r.id, r.hash
             from unnest($1, $2) as r(id, hash)
             join memoryd.%1$I s on s.id = r.id
             where r.hash is null or r.hash = s.text_hash
         ), locked as materialized (
             -- Compared with the row as it is when its lock is got.
             select s.id
             from unchanged u
             join memoryd.%1$I s on s.id = u.id
             where u.hash is null or u.hash = s.text_hash
             for no key update of s skip locked
         )
         select array_agg(u.id) filter (where l.id is not null),
                array_agg(u.id) filter (where l.id is null)
         from unchanged u left join locked l using (id)',
        'source_' || p_source)
    into mine, locked_elsewhere
    using p_ids, p_hashes;
end
$$;

-- Writes the entries of rows of one source. p_hashes: which text of each row was read (null: any). Passages:
-- p_rows says for each which row of p_ids it belongs to, in their order; with its text and its embedding
-- (null: not known yet). Memories are then linked. p_embedder: which model the embeddings are of (null: not
-- checked). When recall uses another by now (memoryd reembed), they are not written: the rows are found by
-- their words, and queued for a daemon that has noticed it. Returns the rows that were written, and those
-- that another transaction has locked.
create or replace function memoryd.write_entries(
    p_source text, p_ids uuid[], p_hashes bigint[], p_rows uuid[], p_passages text[], p_embeddings vector[],
    p_embedder text default null)
returns table (id uuid, scope bigint, locked_elsewhere boolean)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    locked constant record := memoryd.lock_to_index(p_source, p_ids, p_hashes);
    outdated boolean;
    scopes bigint[];
    ids uuid[];
    linked uuid[];
begin
    select array_agg(s.id), array_agg(s.scope) into ids, scopes
    from memoryd.searchable s where s.source = p_source and s.id = any(locked.mine);
    if ids is not null then
        -- The generations cannot change places between this and the end of the transaction.
        lock table memoryd.entries in row exclusive mode;
        outdated := p_embedder <> (select s.value #>> '{}' from memoryd.settings s where s.key = 'embedder')
            or exists (select from unnest(p_embeddings) as e(embedding)
                       where vector_dims(e.embedding) <> memoryd.dimensions());
        if outdated then
            p_embeddings := array_fill(null::vector, array[cardinality(p_rows)]);
        end if;
        -- Rows that have an embedding already are linked.
        select array_agg(distinct e.id) into linked
        from unnest(ids, scopes) as r(id, scope)
        join memoryd.entries e on e.scope = r.scope and e.id = r.id and e.source = p_source
        where e.code is not null;
        perform memoryd.insert_entries(p_source, ids, scopes, p_rows, p_passages, p_embeddings);
        if p_source = 'memory' then
            perform memoryd.associate_indexed(ids, scopes, linked);
        end if;
        if outdated then
            insert into memoryd.jobs (topic, ref, payload, visible_at)
            select 'index', i.id, jsonb_build_object('source', p_source), now() + interval '2 seconds'
            from unnest(ids) as i(id);
        end if;
    end if;
    return query
    select r.id, r.scope, false from unnest(ids, scopes) as r(id, scope)
    union all
    select l.id, null, true from unnest(locked.locked_elsewhere) as l(id);
end
$$;

-- Replaces the entries of these rows, which are locked.
create or replace function memoryd.insert_entries(
    p_source text, p_ids uuid[], p_scopes bigint[], p_rows uuid[], p_passages text[], p_embeddings vector[])
returns void
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    groups constant bigint[] := memoryd.groups_of(p_source, p_ids);
    -- Their embedding was given for an earlier model.
    outdated constant uuid[] := array(
        select u.id from unnest(p_ids, p_scopes) as r(id, scope)
        join memoryd.unindexed u on u.scope = r.scope and u.id = r.id and u.source = p_source
        where u.recompute
        union
        select e.id from unnest(p_ids, p_scopes) as r(id, scope)
        join memoryd.entries e on e.scope = r.scope and e.id = r.id and e.source = p_source
        where e.given_outdated);
begin
    perform memoryd.delete_entries(p_source, p_ids || p_ids, p_scopes || groups);
    with passages as materialized (
        select p.id, p.text, p.embedding, p.nth,
               (row_number() over (partition by p.id order by p.nth) - 1)::smallint as passage
        from unnest(p_rows, p_passages, p_embeddings) with ordinality as p(id, text, embedding, nth)
        where p.id = any(p_ids)
    ), described as materialized (
        select p.*, row_number() over (order by p.nth) as number, s.source, s.scope,
               case when p.passage = 0 and p.id <> all (outdated) then s.given_embedding end as given,
               s.text_hash, s.owner_id, s.agent_id, s.access_level,
               s.visibility_tags, s.row_metadata, s.is_current, s.expires_at, s.session_id, s.position,
               s.speaker, s.role, s.created_at, s.valid_from, s.weight, g.scope as group_scope
        from passages p
        join memoryd.searchable s on s.source = p_source and s.id = p.id
        join unnest(p_ids, groups) as g(id, scope) on g.id = p.id
    ), columns as (
        select array_agg(d.text order by d.number) as texts, array_agg(d.scope order by d.number) as scopes,
               array_agg(d.created_at order by d.number) as written,
               array_agg(d.valid_from order by d.number) as valid
        from described d
    )
    insert into memoryd.entries (
        scope, source, id, passage, embedding, language, lexemes, weights, length, row_length, times,
        asks, owner_id, agent_id, access_level, visibility_tags, grants_metadata, is_current, expires_at,
        session_id, position, speaker, role, created_at, weight, text_hash, given_outdated, group_scope)
    select d.scope, d.source, d.id, d.passage, l2_normalize(coalesce(d.given, d.embedding))::halfvec,
           w.language, w.lexemes, w.weights, w.length, sum(w.length) over (partition by d.id),
           w.times, w.asks, d.owner_id, d.agent_id, d.access_level, d.visibility_tags,
           memoryd.grants_metadata(d.row_metadata), d.is_current, d.expires_at,
           d.session_id, d.position, d.speaker, d.role, d.created_at, d.weight, d.text_hash,
           d.id = any(outdated), d.group_scope
    from columns c
    cross join lateral memoryd.weigh_passages(c.texts, c.scopes, c.written, c.valid) w
    join described d on d.number = w.nth;
    if array_remove(groups, null) <> '{}' then
        perform memoryd.copy_to_groups(p_ids, p_scopes);
    end if;
end
$$;

-- Queues the links of memories that were indexed, but for p_linked: those that have links already. Later
-- memories may have been linked before these were indexed (see handlers/associate.py).
create or replace function memoryd.associate_indexed(p_ids uuid[], p_scopes bigint[], p_linked uuid[])
returns void
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    insert into memoryd.jobs (topic, lane, ref, payload)
    select 'associate', memoryd.associate_lane(m.agent_id, m.user_id), m.id, '{"indexed": true}'
    from unnest(p_ids, p_scopes) as r(id, scope)
    join public.agent_memory m on m.id = r.id
    where (p_linked is null or r.id <> all (p_linked))
      and exists (select from memoryd.entries e
                  where e.scope = r.scope and e.id = r.id and e.source = 'memory' and e.code is not null)
    order by m.created_at, m.id;
    if found then
        perform memoryd.wake('associate');
    end if;
end
$$;
