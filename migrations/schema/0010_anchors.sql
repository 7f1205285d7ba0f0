-- Anchors (memory_anchors) show later whether a memory was changed. They are a Merkle log, the trail: each
-- anchor has a leaf, written in the anchor's own transaction; the daemon gives the leaves their positions,
-- one after the other, and signs checkpoints (docs/trail.md).

-- Of an erased anchor the row shows {"erased": true}, and nothing that its leaf does not protect any more
-- (docs/trail.md). It keeps its id, and the agent and the hashes that hold the agent's chain together.
create function memoryd.is_whole(p_payload jsonb, p_category text, p_created_at timestamptz)
returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select p_payload = '{"erased": true}' or p_category is not null and p_created_at is not null
           or memoryd.refuse('category or created_at of the anchor is null',
                             'Categories: milestone, decision, incident. Leave created_at out.')
$$;

create table public.memory_anchors (
    id uuid primary key default gen_random_uuid(),
    memory_id uuid references public.agent_memory (id) on delete set null,
    agent_id text not null check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id)),
    category text check (
        category in ('milestone', 'decision', 'incident')
        or memoryd.refuse('unknown category ' || quote_literal(category),
                          'Categories: milestone, decision, incident.')),
    payload jsonb not null,
    cid text,
    content_hash bytea not null,
    previous_hash bytea,
    chain_tx text,
    created_at timestamptz default now(),
    constraint memory_anchors_agent_id_size check (memoryd.text_fits('agent_id', agent_id, 200)),
    constraint memory_anchors_cid_size check (memoryd.text_fits('cid', cid, 10000)),
    constraint memory_anchors_chain_tx_size check (memoryd.text_fits('chain_tx', chain_tx, 10000)),
    constraint memory_anchors_payload_size check (memoryd.json_fits('payload', payload)),
    constraint memory_anchors_whole check (memoryd.is_whole(payload, category, created_at))
);
comment on table public.memory_anchors is
    'Anchors of memories whose change must not go unnoticed: the anchors of an agent are a chain of hashes.';
comment on column public.memory_anchors.category is 'Null: it was erased.';
comment on column public.memory_anchors.payload is
    'What was anchored, as it was then. Left out: the memory, by memoryd. {"erased": true}: it was erased.';
comment on column public.memory_anchors.cid is
    'The content identifier of the payload (CIDv1, raw, SHA-256): where it is found, if it is pinned.';
comment on column public.memory_anchors.content_hash is
    'SHA-256 of the payload as Postgres writes it as text. Left out: computed by memoryd.';
comment on column public.memory_anchors.previous_hash is
    'content_hash of the agent''s anchor before, written when the anchor gets its position in the log; '
    'null for its first.';
comment on column public.memory_anchors.chain_tx is
    'The transaction that contains the hash, where there is a chain; null elsewhere.';
comment on column public.memory_anchors.created_at is 'Null: it was erased.';
create index memory_anchors_chain on public.memory_anchors (agent_id, created_at, id);
create index memory_anchors_memory on public.memory_anchors (memory_id) where memory_id is not null;

create table memoryd.trail (
    only_one boolean primary key default true check (only_one),
    id uuid not null default gen_random_uuid(),
    size bigint not null default 0,
    carried boolean not null default false
);
comment on table memoryd.trail is
    'The log of this database: a random id, which its checkpoints name, and how many leaves have a position. '
    'carried: the anchors that were there before the log have leaves. Whoever gives places locks the row.';

insert into memoryd.trail default values;

create table memoryd.trail_leaves (
    id bigint generated always as identity primary key,
    anchor_id uuid not null unique,
    position bigint unique,
    leaf bytea not null,
    salt bytea,
    user_id uuid,
    memory_id uuid,
    chained boolean not null,
    fact_written boolean not null default false
);
comment on table memoryd.trail_leaves is
    'The leaf of each anchor: an HMAC of the row under a salt of its own. There is no foreign key: the leaf '
    'of a row that was deleted stays, and says that it was there.';
comment on column memoryd.trail_leaves.position is 'Its number in the log, from 0; null: it has none yet.';
comment on column memoryd.trail_leaves.salt is 'Null: it was erased, and the leaf tells nothing any more.';
comment on column memoryd.trail_leaves.chained is
    'previous_hash was given by who wrote the anchor, and so is part of the leaf.';
comment on column memoryd.trail_leaves.fact_written is 'The fact that says that it is anchored was written.';
create index trail_leaves_waiting on memoryd.trail_leaves (id) where position is null;
create index trail_leaves_unnoted on memoryd.trail_leaves (position)
    where position is not null and not fact_written;
create index trail_leaves_user on memoryd.trail_leaves (user_id) where user_id is not null;
create index trail_leaves_memory on memoryd.trail_leaves (memory_id) where memory_id is not null;

create table memoryd.trail_tiles (
    level smallint not null,
    number bigint not null,
    hashes bytea not null,
    primary key (level, number)
);
comment on table memoryd.trail_tiles is
    'The hashes of the log''s tree in rows of 256, as C2SP tlog-tiles has them: what proofs are made from.';

create table memoryd.trail_agents (
    agent_id text primary key,
    anchors bigint not null,
    last_hash bytea not null
);
comment on table memoryd.trail_agents is
    'How many anchors of an agent have a position in the log, and the hash of the last of them.';

create table memoryd.trail_keys (
    key_id bytea primary key,
    verifier text not null unique,
    first_used timestamptz not null default now()
);
comment on table memoryd.trail_keys is 'The public keys that have signed checkpoints; all stay valid.';

create table memoryd.trail_checkpoints (
    size bigint primary key,
    root bytea not null,
    note text not null,
    key_id bytea not null references memoryd.trail_keys (key_id),
    signed_at timestamptz not null default now()
);
comment on table memoryd.trail_checkpoints is
    'Signed checkpoints: how many leaves the log had, and the root of their tree.';

create table memoryd.trail_ledgers (
    name text primary key,
    from_position bigint not null,
    next_position bigint not null,
    from_size bigint not null,
    added_at timestamptz not null default now()
);
comment on table memoryd.trail_ledgers is
    'Who else keeps what the trail says, and from which leaf and checkpoint on: those from before it was set '
    'are not sent.';

create table memoryd.trail_receipts (
    ledger text not null references memoryd.trail_ledgers (name) on delete cascade,
    key text not null,
    anchor_id uuid,
    size bigint,
    steps jsonb not null default '{}',
    reference text,
    proof bytea,
    final boolean not null default false,
    attempts integer not null default 0,
    next_at timestamptz not null default now(),
    claimed_until timestamptz not null default '-infinity',
    last_error text,
    created_at timestamptz not null default now(),
    primary key (ledger, key)
);
comment on table memoryd.trail_receipts is
    'What ledgers were asked to keep, an anchor or a checkpoint each, and what they said of it.';
create index trail_receipts_due on memoryd.trail_receipts (ledger, next_at) where not final;
create index trail_receipts_anchor on memoryd.trail_receipts (anchor_id) where anchor_id is not null;
