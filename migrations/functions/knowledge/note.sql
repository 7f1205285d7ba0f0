-- note_knowledge(): what deserves to be stored. Core is always stored, working while what it belongs to is
-- active, learning if it is new enough; else the entry that says it already is strengthened. An insert into
-- shared_knowledge is stored in any case. Below: the times of entries, those that are corrected, deleted,
-- used, and no longer used.

-- The tier of a category: where the team keeps what a founder states (principle), a decision, a correction,
-- the state of a project, an observed outcome, and so on. Null for a category that is a team's own.
create or replace function memoryd.tier_of(p_category text) returns text
language sql immutable parallel safe
return case when p_category in ('principle', 'procedure', 'team', 'client') then 'core'
            when p_category in ('project', 'thread', 'commitment') then 'working'
            when p_category in ('decision', 'correction', 'insight', 'outcome') then 'learning' end;

-- From how much surprise on a learning entry is stored.
create or replace function memoryd.surprise_threshold() returns double precision
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$ select coalesce((select (s.value #>> '{}')::double precision from memoryd.settings s
                       where s.key = 'surprise_threshold'), 0.3) $$;

-- One note of a text at a time, until the end of the transaction: of the same text given twice at once, the
-- second sees what the first has stored. No other text is waited for: what is locked is the key of a row that
-- nobody sees. For the service alone.
create or replace function memoryd.lock_knowledge(p_text text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    key constant text := 'knowledge ' || encode(sha256(convert_to(p_text, 'UTF8')), 'hex');
begin
    if memoryd.caller_is_service() then
        insert into memoryd.lanes (topic, lane) values ('lock', key);
        delete from memoryd.lanes l where l.topic = 'lock' and l.lane = key;
    end if;
end
$$;

-- Raises an error unless a note can be stored as it is given.
create or replace function memoryd.check_note(
    p_tier text, p_category text, p_related uuid[], p_outcome jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, public, pg_temp
as $$
declare
    missing uuid;
begin
    if p_tier is null then
        raise exception 'category % has no tier of its own',
                        coalesce(quote_literal(left(p_category, 60)), 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Give the tier (core, working or learning), or one of the categories principle, '
                         'procedure, team, client; project, thread, commitment; decision, correction, '
                         'insight, outcome.';
    end if;
    select r into missing from unnest(p_related) r
    where not exists (select from public.shared_knowledge k where k.id = r) limit 1;
    if missing is not null then
        raise exception 'related_ids names %, which is not there', missing
            using errcode = 'no_data_found',
                  hint = 'Give ids of entries that your organisation has in shared_knowledge, or leave it '
                         'out.';
    end if;
    if p_category = 'outcome' and memoryd.succeeded(p_outcome) is null then
        raise exception 'the outcome does not say whether it is a success'
            using errcode = 'invalid_parameter_value',
                  hint = 'Give outcome => ''{"success": true, "result": "..."}'', and the decision''s id in '
                         'related_ids.';
    end if;
end
$$;

-- Whether a note is a repetition of the entry that says most of it: an outcome, a decision or a correction
-- is only repeated by its like, and an outcome only if it names no other decision.
create or replace function memoryd.is_repetition(
    p_known public.shared_knowledge, p_tier text, p_category text, p_related uuid[],
    p_surprise double precision)
returns boolean
language sql stable
return case
    when p_surprise = 0 and (p_known).tier = p_tier and (p_known).category = p_category
        then p_category <> 'outcome' or p_related <@ (p_known).related_ids
    when p_tier <> 'learning' or p_surprise >= memoryd.surprise_threshold() then false
    when p_category = 'outcome'
        then (p_known).category = 'outcome' and p_related <@ (p_known).related_ids
    when p_category = 'insight' then (p_known).category <> 'outcome'
    else (p_known).category = p_category or (p_known).tier = 'core' and p_category <> 'correction' end;

-- An entry was said again: it is counted, one step surer, and linked to what the writer linked it to.
create or replace function memoryd.strengthen(p_id uuid, p_category text, p_related uuid[]) returns void
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    update public.shared_knowledge k
    set said_again = k.said_again + 1,
        confidence = case k.confidence when 'low' then 'medium' else 'high' end,
        -- What a correction names is what it corrects.
        related_ids = case when k.category = 'correction' and p_category <> 'correction' then k.related_ids
                           else k.related_ids || array(select r from unnest(p_related) r
                                                       where r <> all (k.related_ids) and r <> k.id) end
    where k.id = p_id
$$;

create or replace function public.note_knowledge(
    content text, category text, created_by text, title text default null, tier text default null,
    confidence text default 'high', tags text[] default '{}', related_ids uuid[] default '{}',
    decision_context jsonb default null, outcome jsonb default null, source text default null,
    created_by_name text default null, strengthen boolean default true)
returns table (what text, id uuid, surprise double precision, neighbour uuid, reason text)
language plpgsql volatile
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
#variable_conflict use_column
declare
    said constant text := btrim(note_knowledge.content);
    called constant text := coalesce(note_knowledge.title, left(split_part(said, E'\n', 1), 120));
    kind constant text := lower(btrim(note_knowledge.category));
    into_tier constant text := coalesce(note_knowledge.tier, memoryd.tier_of(kind));
    named constant uuid[] := coalesce(note_knowledge.related_ids, '{}');
    labels constant text[] := coalesce(note_knowledge.tags, '{}');
    whole constant text := concat_ws(E'\n', called, said, array_to_string(labels, ' '));
    meaning constant vector := memoryd.embed(left(whole, 2000));
    org constant uuid := memoryd.caller_org();
    how record;
    known public.shared_knowledge;
    ended text;
    made uuid;
begin
    perform memoryd.check_note(into_tier, kind, named, note_knowledge.outcome);
    perform memoryd.lock_knowledge(said);
    how := memoryd.surprise_of(called, said, org, meaning);
    if how.neighbour is not null then
        select * into known from public.shared_knowledge k where k.id = how.neighbour for no key update;
        if found and memoryd.is_repetition(known, into_tier, kind, named, how.surprise) then
            if note_knowledge.strengthen is not false then
                perform memoryd.strengthen(known.id, kind, named);
            end if;
            return query select
                case when note_knowledge.strengthen is not false then 'strengthened' else 'known' end,
                known.id, how.surprise, known.id,
                format('%s says it already', quote_literal(left(known.title, 120)));
            return;
        end if;
    end if;
    -- What this belongs to and is over: the first of the working entries named, if none of them is active.
    select min(k.title) into ended
    from public.shared_knowledge k
    where into_tier = 'working' and k.id = any(named) and k.tier = 'working'
    having bool_and(k.status <> 'active');
    if ended is not null then
        return query select 'not stored', null::uuid, how.surprise, how.neighbour,
            format('%s is not active any more', quote_literal(left(ended, 120)));
        return;
    end if;
    insert into public.shared_knowledge (
        org_id, tier, category, title, content, created_by, created_by_name, source, confidence, tags,
        related_ids, decision_context, outcome, surprise_score, embedding)
    values (
        org, into_tier, kind, called, said, note_knowledge.created_by, note_knowledge.created_by_name,
        note_knowledge.source, note_knowledge.confidence, labels, named, note_knowledge.decision_context,
        note_knowledge.outcome, how.surprise,
        -- Found by it at once. A longer text is embedded in passages.
        case when octet_length(whole) <= 800 then meaning end)
    returning shared_knowledge.id into made;
    return query select 'stored', made, how.surprise, how.neighbour,
        (select format('scored the decision %s', quote_literal(left(k.title, 120)))
         from public.shared_knowledge k where k.outcome ->> 'scored_by' = made::text and k.id <> made
           and kind = 'outcome' and (named = '{}' or k.id = any(named)) limit 1);
end
$$;
comment on function public.note_knowledge(text, text, text, text, text, text, text[], uuid[], jsonb,
    jsonb, text, text, boolean) is
    'Notes what the team should know: stores it if it is new, else strengthens the entry that says it '
    'already; returns which, how new it was, and the entry that says most of it. '
    'strengthen => false changes no entry.';

-- Ends a project or thread: it, and the working entries that belong to it, are resolved.
create or replace function public.resolve_knowledge(knowledge_id uuid) returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    resolved bigint;
begin
    perform from public.shared_knowledge k where k.id = resolve_knowledge.knowledge_id and k.tier = 'working';
    if not found then
        raise exception 'no working knowledge %', coalesce(resolve_knowledge.knowledge_id::text, 'null')
            using errcode = 'no_data_found',
                  hint = 'Give the id of a project, thread or commitment in shared_knowledge.';
    end if;
    update public.shared_knowledge k
    set status = 'resolved'
    where k.tier = 'working' and k.status = 'active'
      and (k.id = resolve_knowledge.knowledge_id
           or k.related_ids @> array[resolve_knowledge.knowledge_id] and k.related_ids <> '{}');
    get diagnostics resolved = row_count;
    return resolved;
end
$$;
comment on function public.resolve_knowledge(uuid) is
    'Ends a project or thread: resolves it and the working entries that name it; returns how many.';

-- Sets updated_at, resolved_at, and the expiry of learning entries of low confidence.
create or replace function memoryd.stamp_knowledge() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'UPDATE' then
        new.updated_at := clock_timestamp();
        if new.status = 'active' and old.status = 'resolved'
           and new.resolved_at is not distinct from old.resolved_at then
            new.resolved_at := null;
        end if;
    end if;
    -- An entry that becomes a learning one of low confidence expires after 7 days, unless it has a time. On
    -- insert old is null.
    if new.confidence = 'low' and new.tier = 'learning' and new.expires_at is null
       and (old.confidence, old.tier) is distinct from (new.confidence, new.tier) then
        new.expires_at := now() + interval '7 days';
    end if;
    if new.status = 'resolved' and new.resolved_at is null then
        new.resolved_at := clock_timestamp();
    end if;
    return new;
end
$$;

-- Removes deleted entries from the related_ids of others. A decision loses the outcome that such an entry has
-- told: it is a copy of what that entry said.
create or replace function memoryd.knowledge_deleted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.strip_related((select array_agg(o.id) from old_rows o));
    if exists (select from old_rows o where o.category = 'outcome') then
        with scored as materialized (
            select k.id from public.shared_knowledge k
            where k.category = 'decision'
              and k.outcome ->> 'scored_by' in (
                  select o.id::text from old_rows o where o.category = 'outcome')
            order by k.id for no key update
        )
        update public.shared_knowledge k set outcome = null from scored s where k.id = s.id;
    end if;
    return null;
end
$$;

-- Counts a use of an entry.
create or replace function public.touch_knowledge(knowledge_id uuid) returns void
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    update public.shared_knowledge k
    set accessed_count = k.accessed_count + 1, last_accessed_at = now()
    where k.id = touch_knowledge.knowledge_id;
    if not found then
        raise exception 'no knowledge %', coalesce(touch_knowledge.knowledge_id::text, 'null')
            using errcode = 'no_data_found', hint = 'Give the id of a row of shared_knowledge.';
    end if;
end
$$;
comment on function public.touch_knowledge(uuid) is
    'Notes that an entry was used: what is used does not expire.';

-- Archives entries that have expired unused.
create or replace function public.expire_low_confidence() returns bigint
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    with archived as (
        update public.shared_knowledge k
        set status = 'archived'
        where k.confidence = 'low' and k.tier = 'learning' and k.expires_at < now()
          and k.accessed_count = 0 and k.status <> 'archived'
        returning 1
    )
    select count(*) from archived
$$;
comment on function public.expire_low_confidence() is
    'Archives learning entries of low confidence that nobody used in time; memoryd calls it itself.';

-- Archives working entries that were resolved 30 days ago or earlier. Core is never archived by memoryd.
create or replace function memoryd.archive_resolved() returns bigint
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    with archived as (
        update public.shared_knowledge k
        set status = 'archived'
        where k.tier = 'working' and k.status = 'resolved' and k.resolved_at < now() - interval '30 days'
        returning 1
    )
    select count(*) from archived
$$;

-- What a correction names in related_ids counts less in recall than the correction (the weight in
-- memoryd.source_knowledge). When a correction is written, changed or deleted, the entries of what it names
-- are brought up to date.
create or replace function memoryd.weigh_corrected() returns trigger
language plpgsql security definer
set search_path = pg_catalog, public, pg_temp
as $$
declare
    named uuid[];
begin
    if tg_op in ('INSERT', 'UPDATE') then
        select array_agg(distinct r) into named
        from new_rows n cross join unnest(n.related_ids) r where n.category = 'correction';
    end if;
    if tg_op in ('DELETE', 'UPDATE') then
        select named || array_agg(distinct r) into named
        from old_rows o cross join unnest(o.related_ids) r where o.category = 'correction';
    end if;
    if named is not null then
        perform memoryd.refresh_entries('knowledge', array_agg(k.id), array_agg(k.scope))
        from public.shared_knowledge k where k.id = any(named);
    end if;
    return null;
end
$$;
