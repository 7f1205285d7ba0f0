-- Anchors and their leaves. An anchor gets its leaf in its own transaction; its position comes later
-- (log.sql). What is hashed is described in docs/trail.md.

-- The content identifier of what has this SHA-256: CIDv1, raw bytes, base32.
create or replace function memoryd.cid_of(p_hash bytea) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select 'b' || string_agg(
               substr('abcdefghijklmnopqrstuvwxyz234567',
                      substring(c.bits from n * 5 + 1 for 5)::bit(5)::integer + 1, 1), '' order by n)
    from (select ('x' || '01551220' || encode(p_hash, 'hex') || '0')::bit varying as bits) c
    cross join generate_series(0, 57) n
$$;

-- A time as the trail writes it: UTC, with microseconds.
create or replace function memoryd.written_time(p_time timestamptz) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select case when isfinite(p_time)
                then to_char(p_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
                else p_time::text end
$$;

-- What is anchored of a memory. The random part keeps the hash of a short memory from being guessed. A very
-- long text stands there as its hash.
create or replace function memoryd.anchored_payload(p_memory public.agent_memory, p_category text)
returns jsonb
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select jsonb_build_object(
               'memory_id', p_memory.id, 'agent_id', p_memory.agent_id, 'user_id', p_memory.user_id,
               'kind', p_memory.kind, 'source', p_memory.source, 'category', p_category,
               'created_at', memoryd.written_time(p_memory.created_at),
               'nonce', replace(gen_random_uuid()::text, '-', ''))
           || case when octet_length(p_memory.content) <= 150000
                   then jsonb_build_object('content', p_memory.content)
                   else jsonb_build_object(
                       'content_sha256', encode(sha256(convert_to(p_memory.content, 'UTF8')), 'hex')) end
$$;

-- The text of an anchor that is hashed. p_memory: the memory that it was made of, which the row forgets when
-- the memory goes.
create or replace function memoryd.anchor_text(
    p_anchor public.memory_anchors, p_memory uuid, p_chained boolean) returns text
language sql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select jsonb_build_object(
        'id', p_anchor.id, 'memory_id', p_memory, 'agent_id', p_anchor.agent_id,
        'category', p_anchor.category, 'payload', p_anchor.payload, 'cid', p_anchor.cid,
        'content_hash', encode(p_anchor.content_hash, 'hex'),
        'previous_hash', case when p_chained then encode(p_anchor.previous_hash, 'hex') end,
        'created_at', memoryd.written_time(p_anchor.created_at))::text
$$;

-- Fills what a new anchor leaves out. It runs as the owner, since a right to write anchors is none to read
-- memories; but only who may write anchors gets here.
create or replace function memoryd.complete_anchor() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    memory public.agent_memory;
begin
    if new.memory_id is not null and (new.payload is null or new.agent_id is null) then
        select * into memory from public.agent_memory m where m.id = new.memory_id;
        if not found then
            raise exception 'there is no memory with this id'
                using errcode = 'no_data_found', hint = 'select id from agent_memory ... has the ids.';
        end if;
        new.agent_id := coalesce(new.agent_id, memory.agent_id);
        new.payload := coalesce(new.payload, memoryd.anchored_payload(memory, new.category));
    end if;
    -- The hash of a payload that is erased must not be guessed.
    if new.content_hash is null and jsonb_typeof(new.payload) = 'object' and not new.payload ? 'nonce' then
        new.payload := new.payload || jsonb_build_object('nonce', replace(gen_random_uuid()::text, '-', ''));
    end if;
    new.content_hash := coalesce(new.content_hash, sha256(convert_to(new.payload::text, 'UTF8')));
    if new.cid is null and octet_length(new.content_hash) = 32 then
        new.cid := memoryd.cid_of(new.content_hash);
    end if;
    return new;
end
$$;

-- Erases anchors and the salts of their leaves. The leaves stay, and tell nothing; so the rows show nothing
-- either that could be changed unseen. What stays holds the agent's chain together. Anchors first, as the
-- deletion of a memory locks them: a leaf that carry_anchors() writes meanwhile is seen then.
create or replace function memoryd.seal_anchors(p_anchors uuid[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select from public.memory_anchors a where a.id = any(p_anchors) order by a.id for no key update;
    update public.memory_anchors a
    set payload = '{"erased": true}', memory_id = null, category = null, cid = null, chain_tx = null,
        created_at = null,
        previous_hash = case when not exists (select from memoryd.trail_leaves l
                                              where l.anchor_id = a.id and l.chained)
                             then a.previous_hash end
    where a.id = any(p_anchors) and a.category is not null;
    update memoryd.trail_leaves l
    set salt = null, user_id = null, memory_id = null, fact_written = true
    where l.anchor_id = any(p_anchors);
    delete from memoryd.trail_receipts r where r.anchor_id = any(p_anchors) and not r.final;
$$;

-- Writes the leaves of anchors. p_fact_written: no fact is to say that they are anchored.
create or replace function memoryd.add_leaves(p_anchors uuid[], p_fact_written boolean) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with salted as materialized (
        select a.id, a.created_at, a.memory_id, a.payload, a.previous_hash is not null as chained,
               uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) as salt,
               memoryd.anchor_text(a, a.memory_id, a.previous_hash is not null) as said
        from public.memory_anchors a
        where a.id = any(p_anchors)
    )
    insert into memoryd.trail_leaves (anchor_id, leaf, salt, user_id, memory_id, chained, fact_written)
    select s.id, decode(memoryd.hmac(s.salt, s.said), 'hex'), s.salt,
           coalesce(m.user_id, case when pg_input_is_valid(s.payload ->> 'user_id', 'uuid')
                                    then (s.payload ->> 'user_id')::uuid end),
           s.memory_id, s.chained, p_fact_written or s.memory_id is null
    from salted s
    left join public.agent_memory m on m.id = s.memory_id
    order by s.created_at, s.id
    on conflict (anchor_id) do nothing;
    -- What was erased before it had a leaf gets one that tells nothing.
    select memoryd.seal_anchors(array_agg(a.id))
    from public.memory_anchors a
    where a.id = any(p_anchors) and a.payload = '{"erased": true}'
    having count(*) > 0;
$$;

create or replace function memoryd.anchors_inserted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.add_leaves(array_agg(n.id), false) from new_rows n having count(*) > 0;
    return null;
end
$$;

-- A user's memory that is deleted is deleted in its anchors, too. One that only expired stays there, unless
-- the user has set how long their memories are kept.
create or replace function memoryd.seal_deleted() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    anchors constant uuid[] := array(
        select l.anchor_id
        from old_rows o
        join memoryd.trail_leaves l on l.memory_id = o.id
        where o.user_id is not null
          and (current_setting('memoryd.expiring', true) is distinct from 'on'
               -- Any login may set it.
               or o.expires_at is null or o.expires_at > now()
               or exists (select from public.memory_settings s
                          where s.user_id = o.user_id
                            and coalesce(s.memory_ttl_hours, s.task_memory_ttl_hours) is not null))
        order by l.id);
begin
    if anchors <> '{}' then
        perform memoryd.seal_anchors(anchors);
    end if;
    return null;
end
$$;

create or replace function memoryd.anchor(memory_id uuid, category text) returns uuid
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    said text;
    made uuid;
begin
    select m.content into said from public.agent_memory m where m.id = anchor.memory_id;
    if not found then
        raise exception 'there is no memory with this id'
            using errcode = 'no_data_found', hint = 'select id from agent_memory ... has the ids.';
    end if;
    -- Called again for the same text it changes nothing.
    select a.id into made from public.memory_anchors a
    where a.memory_id = anchor.memory_id and a.category = anchor.category
      and (a.payload ->> 'content' = said
           or a.payload ->> 'content_sha256' = encode(sha256(convert_to(said, 'UTF8')), 'hex'))
    limit 1;
    if made is null then
        insert into public.memory_anchors (memory_id, category) values (anchor.memory_id, anchor.category)
        returning id into made;
    end if;
    return made;
end
$$;
comment on function memoryd.anchor(uuid, text) is
    'Anchors a memory as a milestone, decision or incident, and returns the anchor''s id; the same memory '
    'once in each category. Only a service may.';
