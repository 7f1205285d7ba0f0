-- An application built by the design of a memory lifecycle, with rows; in them some that memoryd refuses.

create table public.agent_memory (
    id uuid primary key default gen_random_uuid(),
    agent_id text not null,
    kind text not null,
    content text not null,
    source text,
    ttl_hours integer,
    created_at timestamptz not null default now()
);
create table public.memory_associations (
    id uuid primary key default gen_random_uuid(),
    memory_id uuid references agent_memory (id) on delete cascade,
    related_memory_id uuid references agent_memory (id) on delete cascade,
    association_type text not null,
    strength float not null,
    created_at timestamptz not null default now()
);
create table public.memory_queries (
    id uuid primary key default gen_random_uuid(),
    agent_id text,
    task_keywords text[],
    retrieved_memory_ids uuid[],
    relevance_scores float[],
    query_time timestamptz not null default now()
);
create table public.dream_insights (
    id uuid primary key default gen_random_uuid(),
    insight text not null,
    source_memories uuid[] not null,
    category text not null,
    confidence float not null,
    generated_at timestamptz not null default now()
);
create view public.shared_memory as
    select * from agent_memory where agent_id = '_shared' order by created_at desc;

insert into agent_memory (id, agent_id, kind, content, source, ttl_hours, created_at)
values (md5('1')::uuid, 'web3dev', 'outcome', 'The staking contract is deployed.', 'bridge', 72, now() - interval '1 hour'),
       (md5('2')::uuid, 'web3dev', 'outcome', 'An outcome that is kept for ever.', 'bridge', null, '2026-01-01 00:00+00'),
       (md5('3')::uuid, 'web3dev', 'error', 'Long forgotten.', 'bridge', 72, '2026-01-01 00:00+00'),
       (md5('4')::uuid, '_shared', 'note', 'The node is restarted at four.', 'orchestrator', null, now()),
       (md5('5')::uuid, 'web3dev', 'rumour', 'No such kind.', null, null, now()),
       (md5('6')::uuid, 'web3dev', 'fact', 'A time to live of nothing.', null, 0, now()),
       (md5('7')::uuid, E'web\n3', 'fact', 'A name with a line break.', null, null, now()),
       (md5('8')::uuid, 'web3dev', 'fact', 'Until the end of time.', null, 2147483647, now());
insert into memory_associations (memory_id, related_memory_id, association_type, strength)
values (md5('1')::uuid, md5('2')::uuid, 'causal', 0.8), (md5('1')::uuid, md5('2')::uuid, 'similar', 0.4),
       (md5('1')::uuid, md5('3')::uuid, 'related', 0.5), (md5('4')::uuid, md5('4')::uuid, 'related', 0.5),
       (md5('4')::uuid, md5('1')::uuid, 'related', 1.5);
insert into memory_queries (agent_id, task_keywords, retrieved_memory_ids, relevance_scores, query_time)
values ('web3dev', '{staking}', array[md5('1')::uuid], '{0.87}', now() - interval '1 day'), ('web3dev', null, null, null, now());
insert into dream_insights (insight, source_memories, category, confidence)
values ('Deployments end well.', array[md5('1')::uuid], 'pattern', 0.6), (' ', '{}', 'pattern', 0.6),
       ('No such category.', '{}', 'omen', 0.6);
