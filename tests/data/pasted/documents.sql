-- What somebody pastes who stores documents by docs/from/documents-and-drive.md, on a database that memoryd has already.

create table if not exists documents (
  id uuid primary key default gen_random_uuid(),
  title text,
  source text,
  document_type text,
  metadata jsonb,
  created_at timestamp default now()
);

create table if not exists memory_chunks (
  id uuid primary key default gen_random_uuid(),
  document_id uuid references documents(id),
  chunk_text text,
  dense_embedding vector(1536),
  sparse_embedding jsonb,
  context text,
  metadata jsonb,
  created_at timestamp default now()
);

create table if not exists conversation_history (
  id uuid primary key default gen_random_uuid(),
  user_id uuid,
  session_id uuid,
  chat_id uuid,
  role text,
  content text,
  embedding vector(1536),
  message_index int,
  metadata jsonb,
  created_at timestamp default now()
);

create index if not exists memory_chunks_dense on memory_chunks using hnsw (dense_embedding vector_cosine_ops);
