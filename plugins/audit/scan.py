"""Rules that read every text in Python: secrets, and personal numbers.

Promise: a finding gives the kind and the place of a value, never the value. Texts are read in pages, without an open
transaction; of a long text the first million characters.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from plugins.audit.patterns import LONGEST, Finder, personal_data_in, secrets_in
from plugins.audit.rule import SECONDS, Extent, Finding, Findings, Repair, SqlRule

if TYPE_CHECKING:
    from handlers.shared.ports import AnyConnection

PAGE = 1000
CHARACTERS = 8_000_000
"""Of texts that are read at once."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a table, and the columns that name its agent and user."""

    table: str
    columns: tuple[str, ...]
    agent: str
    user: str = "t.user_id"
    metadata: str = "t.metadata"
    for_users: bool = True
    beside: str = "true"


# A chunk is read where its document has no text of its own.
TEXTS = (
    Texts("agent_commands", ("message", "output"), "t.agent_id", for_users=False),
    Texts("conversation_messages", ("content",), "t.agent_id"),
    Texts("agent_memory", ("content",), "t.agent_id"),
    Texts("documents", ("content",), "null::text"),
    Texts("memory_chunks", ("chunk_text",), "null::text",
          beside="exists (select from public.documents d where d.id = t.document_id and d.content is null)"),
    Texts("shared_knowledge", ("title", "content"), "t.created_by", user="null::uuid", metadata="'{}'::jsonb", for_users=False),
)  # fmt: skip

# An end user also reads others' messages in group chats: only their own count here.
LENGTHS = """
select t.id, {lengths} as length
from public.{table} t
where ($1::text is null or {agent} = $1) and ($2::uuid is null or {user} = $2)
  and ($3::timestamptz is null or t.created_at >= $3)
  and ($4::text is null or {metadata} ->> 'imported_from' = $4 or ($4 = '' and {metadata} ? 'imported_from'))
  and ($5::uuid[] is null or t.id = any($5))
  and ($6::uuid is null or t.id > $6)
  and {beside} and {own}
order by t.id
limit {page}
"""
READ = """
select t.id, {agent} as agent_id, {user} as user_id, {columns}
from public.{table} t
where t.id = any($1)
order by t.id
"""
SERVICE = "select memoryd.caller_is_service()"
ANCHORED = "select a.memory_id from public.memory_anchors a where a.memory_id = any($1)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRule:
    """A rule about the content of texts, as SqlRule is one about memories."""

    name: str
    says: str
    repairs: str
    finder: Callable[[], Finder]

    async def find(
        self, connection: AnyConnection, extent: Extent, *, limit: int, ids: Sequence[UUID] | None = None
    ) -> Findings:
        """See SqlRule. Raises MissingExtraError without the packages of the extra."""
        finder = self.finder()
        findings: list[Finding] = []
        total = 0
        service = await connection.fetchval(SERVICE)
        for texts in TEXTS:
            if not service and not texts.for_users:
                continue
            async for row in _rows(connection, texts, extent, ids, service=service):
                spans = [
                    {"kind": span.kind, "column": column, "offset": span.offset, "length": span.length}
                    for column in texts.columns
                    for span in finder(row[column] or "")
                ]
                if not spans:
                    continue
                total += 1
                if len(findings) < limit:
                    findings.append(_finding(self.name, texts.table, row, spans))
        return Findings(await _with_anchors(connection, findings), total, total)


async def _rows(
    connection: AnyConnection, texts: Texts, extent: Extent, ids: Sequence[UUID] | None, *, service: bool
) -> AsyncIterator[Any]:
    names = {"table": texts.table, "agent": texts.agent, "user": texts.user}
    lengths = LENGTHS.format(
        **names, metadata=texts.metadata, beside=texts.beside, page=PAGE,
        lengths=" + ".join(f"coalesce(octet_length(t.{c}), 0)" for c in texts.columns),
        own="true" if service else f"{texts.user} = memoryd.caller_id()",
    )  # fmt: skip
    read = READ.format(**names, columns=", ".join(f"left(t.{c}, {LONGEST}) as {c}" for c in texts.columns))
    after: UUID | None = None
    while page := await connection.fetch(lengths, *extent.arguments(ids), after, timeout=SECONDS):
        batch: list[UUID] = []
        size = 0
        for nth, row in enumerate(page, 1):
            batch.append(row["id"])
            size += min(row["length"], LONGEST * len(texts.columns))
            if size >= CHARACTERS or nth == len(page):
                for text in await connection.fetch(read, batch, timeout=SECONDS):
                    yield text
                batch, size = [], 0
        after = page[-1]["id"]


def _finding(rule: str, table: str, row: Any, spans: Sequence[dict[str, object]]) -> Finding:
    said = ", ".join(
        f"{s['kind']} in {s['column']} at {s['offset']}, length {s['length']}" for s in spans[:5]
    )
    more = f", and {len(spans) - 5} more" if len(spans) > 5 else ""
    return Finding(
        rule=rule, table=table, ids=(row["id"],), reason=said + more, agent_id=row["agent_id"], user_id=row["user_id"],
        repair=Repair.REDACT, spans=tuple(spans),
    )  # fmt: skip


async def _with_anchors(connection: AnyConnection, findings: Sequence[Finding]) -> list[Finding]:
    """Adds to findings of anchored memories that the anchor keeps the text until the memory is forgotten."""
    ids = [i for finding in findings if finding.table == "agent_memory" for i in finding.ids]
    anchored = (
        {r["memory_id"] for r in await connection.fetch(ANCHORED, ids, timeout=SECONDS)} if ids else set()
    )
    return [
        replace(finding, reason=finding.reason + "; its anchor keeps it: forget the memory instead")
        if finding.ids[0] in anchored
        else finding
        for finding in findings
    ]


Rule = SqlRule | ScanRule
"""A rule finds one kind of fault."""

SECRETS = ScanRule(
    name="secrets",
    says="A text holds a value in the form of a key, a token, a private key or a URL with a password.",
    repairs="[removed] is written in its place; rows derived from the text are made again.",
    finder=secrets_in,
)
PERSONAL_DATA = ScanRule(
    name="personal-data",
    says="A text holds a number whose check digits are right (IBAN, payment card, identity number), an e-mail address or "
    "a telephone number.",
    repairs="[removed] is written in its place; rows derived from the text are made again.",
    finder=personal_data_in,
)
