-- What somebody pastes who builds a base of knowledge by docs/from/team-knowledge.md, on a database that memoryd has already.

create table if not exists shared_knowledge (
  id uuid default gen_random_uuid() primary key,
  org_id uuid not null default '6420346e-4e6a-47a8-b671-80beacd394b4',
  tier text not null check (tier in ('core', 'working', 'learning')),
  category text not null,
  title text not null,
  content text not null,
  created_by uuid not null,
  embedding vector(1536)
);

create index if not exists sk_embedding_idx
  on shared_knowledge using ivfflat (embedding vector_cosine_ops) with (lists = 100);

create index if not exists sk_tier_idx on shared_knowledge(tier);

create index if not exists sk_tags_idx on shared_knowledge using gin(tags);

create or replace function search_shared_knowledge(
  query_embedding vector(1536),
  match_threshold float default 0.65,
  match_count int default 10,
  filter_tier text default null,
  filter_category text default null,
  filter_tags text[] default null,
  exclude_archived boolean default true
)
returns table (
  id uuid,
  tier text,
  category text,
  title text,
  content text,
  created_by_name text,
  confidence text,
  tags text[],
  similarity float,
  created_at timestamptz
)
language sql stable
as $$
  select sk.id, sk.tier, sk.category, sk.title, sk.content, sk.created_by_name, sk.confidence, sk.tags,
    1 - (sk.embedding <=> query_embedding) as similarity, sk.created_at
  from shared_knowledge sk
  where 1 - (sk.embedding <=> query_embedding) > match_threshold
    and (filter_tier is null or sk.tier = filter_tier)
    and (filter_category is null or sk.category = filter_category)
    and (filter_tags is null or sk.tags && filter_tags)
    and (not exclude_archived or sk.status != 'archived')
  order by sk.embedding <=> query_embedding
  limit match_count;
$$;

create or replace function touch_knowledge(knowledge_id uuid)
returns void
language sql
as $$
  update shared_knowledge
  set accessed_count = accessed_count + 1,
      last_accessed_at = now()
  where id = knowledge_id;
$$;

create or replace function expire_low_confidence()
returns void
language sql
as $$
  update shared_knowledge
  set status = 'archived'
  where confidence = 'low' and tier = 'learning' and expires_at < now() and accessed_count = 0;
$$;

create or replace function update_updated_at() returns trigger language plpgsql as $$
begin
  new.updated_at = now();
  return new;
end;
$$;

create trigger sk_updated_at
  before update on shared_knowledge
  for each row
  execute function update_updated_at();
