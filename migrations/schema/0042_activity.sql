-- When documents and knowledge were last written: what an idle dream waits for. Neither table is big.
-- Entries of knowledge that memoryd archives by itself are left out.

create index documents_updated on public.documents (updated_at);
create index shared_knowledge_updated on public.shared_knowledge (updated_at) where status <> 'archived';
