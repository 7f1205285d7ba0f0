"""Does only what belongs come? What `relevant_only` leaves out of recall, and what comes for questions that nothing answers.

    python -m benchmarks.search.precision --cases FOLDER
    python -m benchmarks.search.precision --data FILE...

FOLDER has the beliefs.json and cases.json of PrecisionMemBench (tenurehq, MIT). Its beliefs become memories, with their
aliases in brackets; a belief's scope is its project, and the universal one is none. Beliefs that were replaced name what
replaced them, resolved ones have ended. Each case is asked in its scope. Pinned beliefs, which a host gives in any case,
count neither way. Precision and recall are means over the cases in which something belongs; "silent" is the part of the other
cases that bring nothing.

FILEs are as for benchmarks.search.evidence. Of each set: the evidence among the first ten that is kept, the part of the others
among them that is left out, and the part of the questions that bring nothing when they are asked of the next body of the set
(of a set with one body: of the first body of the first set).
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import asyncpg

from benchmarks.harness import arguments, daemon, database, wait_for
from benchmarks.search.bodies import IDLE, Body, read, write
from benchmarks.search.evidence import print_table, shown

RECALL = """
select id from recall($1, user_id => $2, match_count => 10, options => $3::jsonb)
"""
WRITE = """
insert into agent_memory (id, agent_id, user_id, kind, content, metadata, created_at, valid_to, ttl_hours)
select b.id, 'reader', b.user_id, 'fact', b.content, b.metadata, b.created_at, b.valid_to, null
from jsonb_to_recordset($1::jsonb)
     as b(id uuid, user_id uuid, content text, metadata jsonb, created_at timestamptz, valid_to timestamptz)
"""
REPLACE = "update agent_memory set superseded_by = $2 where id = $1"
UNIVERSAL = "user:universal"


def identity(name: str) -> uuid.UUID:
    """The id of a belief, or of a user."""
    return uuid.uuid5(uuid.NAMESPACE_OID, name)


def memory_of(belief: Mapping[str, Any]) -> dict[str, object]:
    """A belief as a row."""
    aliases = ", ".join(belief["aliases"])
    scopes = [scope for scope in belief["scope"] if scope != UNIVERSAL]
    return {
        "id": str(identity(belief["_id"])),
        "user_id": str(identity(belief["user_id"])),
        "content": f"{belief['content']} ({aliases})" if aliases else belief["content"],
        "metadata": {"project": scopes[0]} if scopes else {},
        "created_at": belief["created_at"],
        "valid_to": belief["resolved_at"],
    }


@dataclass(frozen=True, slots=True)
class Precision:
    """Of all cases."""

    precision: float
    recall: float
    silent: float


async def ask_cases(
    connection: asyncpg.Connection,
    beliefs: Sequence[Mapping[str, Any]],
    cases: Sequence[Mapping[str, Any]],
    options: Mapping[str, object],
) -> Precision:
    """What comes for each case, beside what should."""
    names = {identity(b["_id"]): b["_id"] for b in beliefs if not b["pinned"]}
    user = identity(next(b["user_id"] for b in beliefs))
    precision, recall, silent = [], [], []
    for case in cases:
        given = json.dumps({"project": case["scope"][0], **options})
        rows = await connection.fetch(RECALL, case["query"], user, given)
        found = {names[row["id"]] for row in rows if row["id"] in names}
        wanted = set(case["expect"]["relevantBeliefs"]["shouldOnlyInclude"])
        if wanted:
            precision.append(len(wanted & found) / max(1, len(found)))
            recall.append(len(wanted & found) / len(wanted))
        else:
            silent.append(float(not found))
    return Precision(fmean(precision), fmean(recall), fmean(silent))


async def measure_cases(url: str, folder: Path) -> dict[str, Precision]:
    """With and without the cut."""
    beliefs = json.loads((folder / "beliefs.json").read_text(encoding="utf-8"))
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    connection = await asyncpg.connect(url)
    async with daemon(url):
        await connection.execute(WRITE, json.dumps([memory_of(b) for b in beliefs]))
        for belief in beliefs:
            if belief["superseded_by"]:
                await connection.execute(REPLACE, identity(belief["_id"]), identity(belief["superseded_by"]))
        await wait_for(connection, IDLE, pause=0.02)
    results = {
        name: await ask_cases(connection, beliefs, cases, {"relevant_only": only})
        for name, only in (("ten results", False), ("relevant_only", True))
    }
    await connection.close()
    return results


@dataclass(frozen=True, slots=True)
class Cut:
    """Of a set: parts of what the first ten results are without the cut."""

    evidence_kept: float
    others_left_out: float
    silent: float


async def measure_set(connection: asyncpg.Connection, bodies: Sequence[Body], stranger: Body) -> Cut:
    """What the cut leaves of the answers, and of answers to questions about another body."""
    evidence, others, silent = [], [], []
    for n, body in enumerate(bodies):
        other = bodies[(n + 1) % len(bodies)] if len(bodies) > 1 else stranger
        for question in body.questions:
            found, left, elsewhere = [
                {row["id"] for row in await connection.fetch(RECALL, question.text, asked.user, options)}
                for asked, options in (
                    (body, "{}"),
                    (body, '{"relevant_only": true}'),
                    (other, '{"relevant_only": true}'),
                )
            ]
            evidence += [float(row in left) for row in found & question.evidence]
            others += [float(row not in left) for row in found - question.evidence]
            silent.append(float(not elsewhere))
    return Cut(fmean(evidence), fmean(others), fmean(silent))


async def measure_sets(url: str, files: Sequence[Path]) -> dict[str, Cut]:
    """All sets."""
    written = {name: (await write(url, texts))[0] for name, texts in read(files).items()}
    connection = await asyncpg.connect(url)
    strangers = next(iter(written.values()))
    results = {name: await measure_set(connection, bodies, strangers[0]) for name, bodies in written.items()}
    await connection.close()
    return results


def main() -> None:
    """Runs the benchmark."""
    made = arguments(__doc__ or "")
    made.add_argument("--cases", type=Path, metavar="FOLDER", help="beliefs and cases of PrecisionMemBench")
    made.add_argument("--data", type=Path, nargs="+", metavar="FILE", help="bodies of text with questions")
    options = made.parse_args()
    if not options.cases and not options.data:
        made.error("give --cases, --data or both")
    lines: list[dict[str, object]] = []
    if options.cases:
        with database(options.database_url) as url:
            cases = asyncio.run(measure_cases(url, options.cases))
        print_table(
            ["", "precision", "recall", "silent"],
            [(n, [shown(p.precision), shown(p.recall), shown(p.silent)]) for n, p in cases.items()],
        )
        lines += [{"benchmark": f"precision: {n}", **asdict(p)} for n, p in cases.items()]
    if options.data:
        with database(None if options.cases else options.database_url) as url:
            sets = asyncio.run(measure_sets(url, options.data))
        print_table(
            ["relevant_only", "evidence kept", "others left out", "silent about another body"],
            [(name, [shown(value) for value in astuple(cut)]) for name, cut in sets.items()],
        )
        lines += [{"benchmark": f"what belongs: {name}", **asdict(cut)} for name, cut in sets.items()]
    text = "\n".join(map(json.dumps, lines))
    print("\n" + text)
    if options.json is not None:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
