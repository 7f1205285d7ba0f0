"""How the replica is doing, as the database has it: for `memoryd replica` and the doctor."""

from __future__ import annotations

STATUS = """
select r.id, r.leased_until > now() as kept, r.trouble,
       extract(epoch from now() - r.synced_at)::float8 as synced_seconds,
       (select count(*) from memoryd.replica_files f where f.conflict_id is null) as files,
       (select count(*) from memoryd.replica_conflicts c join public.documents d on d.id = c.document_id
        where d.status <> 'deleted')
       + (select count(*) from memoryd.replica_section_conflicts c where not c.ended) as conflicts,
       (select count(*) from memoryd.replica_collections c where c.file_hash is not null) as collections,
       (select count(*) from memoryd.replica_sections s where s.base_hash is not null) as entries,
       (select count(*) from memoryd.replica_buried) as deleted_sections,
       (select coalesce(sum(c.missing), 0) from memoryd.replica_collections c
        where c.missing_since is not null) as waiting_sections,
       (select count(*) from memoryd.replica_tombstones) as deleted,
       (select count(*) from memoryd.replica_files f where f.missing_since is not null) as waiting
from memoryd.replica r
"""
