-- What somebody pastes who builds a fleet's memory by docs/from/command-lifecycle.md, on a database that memoryd has already.

create table if not exists agent_memory (
  id uuid primary key default gen_random_uuid(),
  agent_id text not null,
  kind text not null,
  content text not null,
  source text,
  ttl_hours integer,
  created_at timestamptz default now()
);

create or replace view shared_memory as
select * from agent_memory
where agent_id = '_shared'
order by created_at desc;
