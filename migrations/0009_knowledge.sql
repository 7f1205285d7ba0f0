-- What a team knows (source design 003).

create table public.shared_knowledge (
    id uuid primary key default gen_random_uuid(),
    org_id uuid,
    tier text not null check (
        tier in ('core', 'working', 'learning')
        or memoryd.refuse('unknown tier ' || quote_literal(tier), 'Tiers: core, working, learning.')),
    category text not null check (
        category ~ '\S'
        or memoryd.refuse('category is blank',
                          'Such as principle, procedure, team, client; project, thread, commitment; decision, correction, insight, outcome.')),
    title text not null check (title ~ '\S' or memoryd.refuse('title is blank', 'A short title that one would search for.')),
    content text not null check (content ~ '\S' or memoryd.refuse('content is blank', 'Say what is known.')),
    created_by text not null,
    created_by_name text,
    source text,
    confidence text not null default 'high' check (
        confidence in ('high', 'medium', 'low')
        or memoryd.refuse('unknown confidence ' || quote_literal(confidence), 'Confidences: high, medium, low.')),
    surprise_score double precision check (
        surprise_score between 0 and 1 or memoryd.refuse('surprise_score is ' || surprise_score, 'From 0 to 1.')),
    tags text[] not null default '{}',
    related_ids uuid[] not null default '{}',
    decision_context jsonb,
    outcome jsonb,
    status text not null default 'active' check (
        status in ('active', 'resolved', 'archived')
        or memoryd.refuse('unknown status ' || quote_literal(status), 'Statuses: active, resolved, archived.')),
    resolved_at timestamptz,
    accessed_count integer not null default 0,
    last_accessed_at timestamptz,
    expires_at timestamptz,
    created_at timestamptz not null default now() check (
        created_at between '1900-01-01 00:00+00' and '9999-12-30 00:00+00'
        or memoryd.refuse('created_at is ' || created_at, 'Times from 1900 to 9999.')),
    updated_at timestamptz not null default now()
);
comment on table public.shared_knowledge is 'What the team knows: share knowledge, not identity. Agents alone read and write it.';
comment on column public.shared_knowledge.created_by is 'The agent that wrote it, by agent_id; the source design''s uuids fit too.';
comment on column public.shared_knowledge.expires_at is 'Of learning entries of low confidence: 7 days unless told; null: never. Unread by then, they are archived.';
create index shared_knowledge_tier on public.shared_knowledge (tier, category);
create index shared_knowledge_tags on public.shared_knowledge using gin (tags);
create index shared_knowledge_status on public.shared_knowledge (status);
create index shared_knowledge_author on public.shared_knowledge (created_by);
create index shared_knowledge_expiring on public.shared_knowledge (expires_at)
    where expires_at is not null and status <> 'archived';

create function memoryd.stamp_knowledge() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'INSERT' then
        if new.confidence = 'low' and new.tier = 'learning' and new.expires_at is null then
            new.expires_at := now() + interval '7 days';
        end if;
    else
        new.updated_at := clock_timestamp();
    end if;
    if new.status = 'resolved' and new.resolved_at is null then
        new.resolved_at := clock_timestamp();
    end if;
    return new;
end
$$;
create trigger stamp_knowledge_insert before insert on public.shared_knowledge
    for each row execute function memoryd.stamp_knowledge();
-- Reading an entry is no change of it.
create trigger stamp_knowledge_update before update on public.shared_knowledge
    for each row when ((new.tier, new.category, new.title, new.content, new.confidence, new.tags, new.related_ids,
                        new.decision_context, new.outcome, new.status)
                       is distinct from (old.tier, old.category, old.title, old.content, old.confidence, old.tags, old.related_ids,
                                         old.decision_context, old.outcome, old.status))
    execute function memoryd.stamp_knowledge();

create function public.touch_knowledge(knowledge_id uuid) returns void
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
comment on function public.touch_knowledge is 'Notes that an entry was used: what is used does not expire.';

create function public.expire_low_confidence() returns bigint
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
comment on function public.expire_low_confidence is 'Archives learning entries of low confidence that nobody used in time; memoryd calls it itself.';
