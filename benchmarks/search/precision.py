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

import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import asyncpg

from benchmarks.harness import Figures, command, daemon, print_table, shown, until_idle
from benchmarks.search.bodies import Body, read, write

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


async def ask_cases(
    connection: asyncpg.Connection,
    beliefs: Sequence[Mapping[str, Any]],
    cases: Sequence[Mapping[str, Any]],
    options: Mapping[str, object],
) -> dict[str, float]:
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
    return {"precision": fmean(precision), "recall": fmean(recall), "silent": fmean(silent)}


async def measure_cases(
    url: str, connection: asyncpg.Connection, folder: Path
) -> dict[str, dict[str, float]]:
    """With and without the cut."""
    beliefs = json.loads((folder / "beliefs.json").read_text(encoding="utf-8"))
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    async with daemon(url):
        await connection.execute(WRITE, json.dumps([memory_of(b) for b in beliefs]))
        for belief in beliefs:
            if belief["superseded_by"]:
                await connection.execute(REPLACE, identity(belief["_id"]), identity(belief["superseded_by"]))
        await until_idle(connection)
    return {
        name: await ask_cases(connection, beliefs, cases, {"relevant_only": only})
        for name, only in (("ten results", False), ("relevant_only", True))
    }


async def measure_set(
    connection: asyncpg.Connection, bodies: Sequence[Body], stranger: Body
) -> dict[str, float]:
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
    return {"evidence_kept": fmean(evidence), "others_left_out": fmean(others), "silent": fmean(silent)}


async def measure(
    url: str,
    connection: asyncpg.Connection,
    *,
    cases: Annotated[Path | None, "folder of beliefs and cases of PrecisionMemBench"] = None,
    data: Annotated[list[Path], "bodies of text with questions"] = [],  # noqa: B006
) -> list[Figures]:
    """The cases, then the sets."""
    if not cases and not data:
        raise SystemExit("give --cases, --data or both")
    lines: list[Figures] = []
    if cases:
        asked = await measure_cases(url, connection, cases)
        print_table(
            ["", "precision", "recall", "silent"],
            [(name, [shown(value) for value in found.values()]) for name, found in asked.items()],
        )
        lines += [{"benchmark": f"precision: {name}", **found} for name, found in asked.items()]
    if data:
        sets = {name: (await write(url, texts))[0] for name, texts in read(data).items()}
        [stranger, *_] = next(iter(sets.values()))
        cuts = {name: await measure_set(connection, bodies, stranger) for name, bodies in sets.items()}
        print_table(
            ["relevant_only", "evidence kept", "others left out", "silent about another body"],
            [(name, [shown(value) for value in cut.values()]) for name, cut in cuts.items()],
        )
        lines += [{"benchmark": f"what belongs: {name}", **cut} for name, cut in cuts.items()]
    return lines


if __name__ == "__main__":
    command(__doc__, measure)
