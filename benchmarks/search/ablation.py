"""What each part of recall is worth: evidence recall over all sets, with one part taken away at a time.

    python -m benchmarks.search.ablation --data FILE...

FILEs are as for benchmarks.search.evidence. All sets are indexed in one database. A part is taken away there by replacing a
fragment of one of memoryd's functions, which is undone afterwards; where the part is written with the row, the rows are indexed
again. The benchmark ends with an error where a function no longer has the fragment: then this file must follow it.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated

import asyncpg
from pgvector import Vector
from pgvector.asyncpg import register_vector

from benchmarks.harness import Figures, command, print_table
from benchmarks.load.bulk import COUNT
from benchmarks.search.bodies import Body, Files, read, write
from memory.passages import passages
from providers.local_embedder import LocalEmbedder

RECALL = "select id from recall($1, user_id => $2, match_count => $3)"
DEFINITION = """
select pg_get_functiondef(p.oid)
from pg_proc p
where p.proname = $1 and p.pronamespace = 'memoryd'::regnamespace
"""


@dataclass(frozen=True, slots=True)
class Edit:
    """A fragment of a function of memoryd, and what replaces it."""

    function: str
    fragment: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part of recall, and how it is taken away."""

    name: str
    edits: Sequence[Edit] = ()
    indexed: bool = False
    """Whether it is written with the rows."""
    whole: bool = False
    """Whether a text is indexed as one passage."""


NO_MORE_WORDS = Edit(
    "rank_passages", "coalesce(weights.more * m.more / nullif(max(m.more) over w, 0), 0)", "0::float8"
)
NO_LEXICAL = Edit(
    "rank_passages", "coalesce(s.lexical / nullif(max(s.lexical) over w, 0), 0) as part", "0::float8 as part"
)
NAMED = """case when p.speaker = any((p_question).speakers) or p.role = (p_question).role
                   then weights.named else 0 end"""

PARTS = (
    Part("nothing"),
    Part("lexical, from the sum", [NO_LEXICAL, NO_MORE_WORDS]),
    Part("words of the best", [NO_MORE_WORDS]),
    Part("dense, from the sum", [Edit(
        "rank_passages", "coalesce(weights.dense * s.near / nullif(max(s.near) over w, 0), 0) as dense_part",
        "0::float8 as dense_part")]),
    Part("embeddings wholly", [Edit("embeds_here", "return exists (", "return false and exists (")]),
    Part("messages beside", [
        Edit("lexical_scores", "least(b.top, b.has * r.share)", "0::float8"),
        Edit("candidates", "|| nearest || beside", "|| nearest")]),
    Part("less of them for long messages", [
        Edit("lexical_scores", "80.0 / (80 + r.row_length) as share", "1.0 as share")]),
    Part("words near in meaning", [Edit("weigh_lexemes", "limit 8\n", "limit 0\n")]),
    Part("named and roles", [Edit("rank_passages", NAMED, "0")]),
    Part("roles alone", [Edit(
        "rank_passages", "or p.role = (p_question).role\n                   then weights.named", "then weights.named")]),
    Part("says little (prior)", [Edit("rank_passages", "weights.prior / (5 + p.row_length)", "0::float8")]),
    Part("session", [Edit("rank_passages", "weights.session * (max(b.net) over w - b.net)", "0::float8")]),
    Part("sum of a session, for long questions", [Edit("rank_passages", "0.3 * p_long", "0 * p_long")]),
    Part("length of the passage", [
        Edit("lexical_scores", "0.5 + 0.5 * greatest(1, r.length) / average as norm", "1::float8 as norm"),
        Edit("worded_passages", "(0.5 + 0.5 * greatest(1, l.length) / average)", "1::float8")]),
    Part("time in the question", [Edit(
        "times_in", "if line is null then", "if line is null or not p_written then")]),
    Part("times that rows name", [Edit("fit_passages", " or times_asked && r.times or", " or")]),
    Part("candidates of these times", [Edit(
        "candidates", "memoryd.nearest_passages(p_request, (p_question).times)", "null::tid[]")]),
    Part("passages (one a text)", indexed=True, whole=True),
)  # fmt: skip

WRITE = """
select memoryd.insert_entries($1, array_agg(s.id), array_agg(s.scope), $2, $3, $4)
from memoryd.searchable s where s.source = $1 and s.id = any($2::uuid[])
"""


class Sets:
    """The sets in the database, and what is asked of them."""

    def __init__(self, bodies: Mapping[str, Sequence[Body]], most: int) -> None:
        self._bodies = bodies
        self._most = most

    async def ask(self, connection: asyncpg.Connection, count: int) -> dict[str, float]:
        """Mean evidence recall at `count`, by set."""
        statement = await connection.prepare(RECALL)
        means = {}
        for name, bodies in self._bodies.items():
            asked = [(body.user, q) for body in bodies for q in body.questions if q.evidence]
            parts = []
            for user, question in asked[:: -(-len(asked) // self._most)]:
                found = {r["id"] for r in await statement.fetch(question.text, user, count)}
                parts.append(len(found & question.evidence) / len(question.evidence))
            means[name] = fmean(parts)
        return means

    async def index(self, connection: asyncpg.Connection, *, whole: bool) -> None:
        """Indexes all rows again, as the daemon does; `whole`: each text as one passage."""
        embedder = LocalEmbedder()
        await connection.execute("set session_replication_role = replica")
        for bodies in self._bodies.values():
            for body in bodies:
                source = "memory" if None in body.sessions.values() else "conversation"
                cut: list[tuple[uuid.UUID, str]] = [
                    (row, passage)
                    for row, text in body.texts.items()
                    for passage in ([text.strip()] if whole else passages(text))
                ]
                texts = [passage for _, passage in cut]
                vectors = [Vector(v) for v in await embedder.embed(texts)]
                await connection.execute(WRITE, source, [row for row, _ in cut], texts, vectors)
        await connection.execute(COUNT)
        await connection.execute("set session_replication_role = origin")
        await connection.execute("vacuum analyze memoryd.entries")
        await embedder.close()


@asynccontextmanager
async def without(connection: asyncpg.Connection, edits: Sequence[Edit]) -> AsyncIterator[None]:
    """The functions with these edits; as before at the end."""
    before = []
    for edit in edits:
        definitions = await connection.fetch(DEFINITION, edit.function)
        if len(definitions) != 1:
            raise SystemExit(f"There are {len(definitions)} functions memoryd.{edit.function}, not one.")
        text = definitions[0][0]
        if text.count(edit.fragment) != 1:
            raise SystemExit(
                f"memoryd.{edit.function} has {text.count(edit.fragment)} times, not once: {edit.fragment!r}. "
                "Change the fragment in benchmarks/search/ablation.py."
            )
        before.append(text)
        await connection.execute(text.replace(edit.fragment, edit.replacement))
    yield
    for text in reversed(before):
        await connection.execute(text)


async def check(connection: asyncpg.Connection) -> None:
    """Ends here if a fragment is gone, before anything is measured."""
    for part in PARTS:
        async with without(connection, part.edits):
            pass


async def measure(
    url: str,
    connection: asyncpg.Connection,
    *,
    data: Files,
    at: Annotated[int, "results that are looked at"] = 10,
    questions: Annotated[int, "of a set at most; of a bigger set every second, third ..."] = 10_000,
    only: Annotated[list[str], "these parts; none given: all"] = [],  # noqa: B006
) -> list[Figures]:
    """Evidence recall by what was taken away, and by set."""
    if unknown := set(only) - (names := {part.name for part in PARTS}):
        raise SystemExit(f"{unknown} is none of {names}")
    await register_vector(connection)
    await check(connection)
    sets = Sets({name: (await write(url, texts))[0] for name, texts in read(data).items()}, questions)
    table: dict[str, dict[str, float]] = {}
    for part in PARTS:
        if only and part.name not in only:
            continue
        async with without(connection, part.edits):
            if part.indexed:
                await sets.index(connection, whole=part.whole)
            table[part.name] = await sets.ask(connection, at)
        if part.indexed:
            await sets.index(connection, whole=False)
        table[part.name]["mean"] = fmean(table[part.name].values())
        print(part.name, {k: round(v, 4) for k, v in table[part.name].items()}, file=sys.stderr, flush=True)
    columns = list(next(iter(table.values())))
    print_table(
        ["taken away", *columns],
        [(name, [f"{100 * values[c]:.1f}" for c in columns]) for name, values in table.items()],
    )
    return [{"at": at, **table}]


if __name__ == "__main__":
    command(__doc__, measure)
