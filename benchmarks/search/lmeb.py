"""Retrieval tasks of MTEB, LMEB's among them (arXiv 2603.12572), asked of a memoryd.

    pip install mteb                                       in an environment with memoryd; it brings torch
    python -m benchmarks.search.lmeb                       the tasks of episodic and dialogue memory
    python -m benchmarks.search.lmeb REALTALK TMD          these; any text retrieval task of MTEB by its name

MTEB fetches the tasks and scores what `Memoryd` answers. With --database-url a memoryd that runs there is asked, and the rows
stay; without, an embedded one. A task may say which documents a question is asked of (one conversation of ten): each such pool
is one user's memories. A document becomes one memory, its title before its text. MTEB has no column for a time, a speaker or a
session, so memoryd has none either, where an application gives it all three.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from importlib.metadata import version
from typing import Any

import asyncpg

from benchmarks.harness import arguments, daemon, database, print_table, report, shown
from benchmarks.search.bodies import WRITE_MEMORIES
from memory.text import is_blank

TASKS = ("EPBench", "KnowMeBench", "LoCoMo", "LongMemEval", "REALTALK", "TMD", "MemBench", "ConvoMem")
SCORES = ("ndcg_at_10", "recall_at_10", "R_cap_at_10")
NAMESPACE = uuid.UUID("6b0b9a5e-3f0c-5b7e-9d51-6c6d65620001")

IS_WRITTEN = "select exists (select from agent_memory where user_id = $1)"
WAITING = "select count(*) from index_state($1) where state <> 'indexed'"
DAEMON_RUNS = "select exists (select from memoryd.daemons where seen_at > now() - interval '1 minute')"
RECALL = "select id from recall($1, user_id => $2, match_count => $3)"

Row = Mapping[str, Any]


class Memoryd:
    """A memoryd as a model of MTEB: implements `mteb.models.SearchProtocol`.

    `mteb_model_meta` is what MTEB files the results under, a `mteb.models.ModelMeta`.
    """

    def __init__(self, url: str, mteb_model_meta: Any = None) -> None:
        self.mteb_model_meta = mteb_model_meta
        self._url = url
        self._texts: dict[str, str] = {}

    def index(self, corpus: Iterable[Row], **_: Any) -> None:
        """Takes the documents, rows of `id`, `text` and perhaps `title`; blank ones are left out. `search` writes them."""
        texts = {
            row["id"]: "\n".join(part for part in (row.get("title"), row["text"]) if part).replace("\0", " ")
            for row in corpus
        }
        self._texts = {document: text for document, text in texts.items() if not is_blank(text)}

    def search(
        self,
        queries: Iterable[Row],
        *,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """The `top_k` best documents of each question, a row of `id` and `text`.

        `top_ranked` has the documents that may answer a question; without it, all. A score is one divided by the place, for
        MTEB sorts by the score, and equal ones by id.
        """
        asked: dict[tuple[str, ...], list[Row]] = defaultdict(list)
        for query in queries:
            pool = (top_ranked or {}).get(query["id"], self._texts)
            asked[tuple(document for document in pool if document in self._texts)].append(query)
        return asyncio.run(self._search(asked, top_k))

    async def _search(
        self, asked: Mapping[tuple[str, ...], Sequence[Row]], count: int
    ) -> dict[str, dict[str, float]]:
        connection = await asyncpg.connect(self._url)
        try:
            pools = [await self._write(connection, pool) for pool in asked]
            await _indexed(connection, [row for _, rows in pools for row in rows])
            answers = {}
            for (user, documents), queries in zip(pools, asked.values(), strict=True):
                for query in queries:
                    found = await connection.fetch(RECALL, query["text"].replace("\0", " "), user, count)
                    answers[query["id"]] = {documents[r["id"]]: 1 / n for n, r in enumerate(found, 1)}
            return answers
        finally:
            await connection.close()

    async def _write(
        self, connection: asyncpg.Connection, pool: Sequence[str]
    ) -> tuple[uuid.UUID, dict[uuid.UUID, str]]:
        """Its user, and its documents by row. The user follows from the texts: subsets with one corpus share the rows."""
        texts = [self._texts[document] for document in pool]
        user = uuid.uuid5(NAMESPACE, hashlib.sha256(json.dumps([pool, texts]).encode()).hexdigest())
        documents = {uuid.uuid5(user, document): document for document in pool}
        if not await connection.fetchval(IS_WRITTEN, user):
            users, times = [user] * len(pool), [None] * len(pool)
            await connection.execute(WRITE_MEMORIES, list(documents), users, texts, times)
        return user, documents


async def _indexed(connection: asyncpg.Connection, rows: Sequence[uuid.UUID]) -> None:
    """Waits until recall finds the rows."""
    is_served = True  # A daemon that has just started has no heartbeat yet.
    while waiting := await connection.fetchval(WAITING, rows):
        if not is_served:
            raise SystemExit(
                f"{waiting} of {len(rows)} documents are not indexed: does a daemon run on this database? "
                "`memoryd doctor` and index_state() say why."
            )
        is_idle = await connection.fetchval("select wait_until_idle(10)")
        is_served = not is_idle and await connection.fetchval(DAEMON_RUNS)


def meta() -> Any:
    """What MTEB wants to know of a model."""
    from mteb.models import ModelMeta  # noqa: PLC0415

    unknown = (
        "release_date languages n_parameters memory_usage_mb max_tokens embed_dim license open_weights "
        "public_training_code public_training_data similarity_fn_name training_datasets"
    )
    return ModelMeta(
        name="memoryd/recall",
        revision=version("memoryd"),
        loader=None,
        framework=[],
        use_instructions=False,
        **dict.fromkeys(unknown.split()),
    )


async def evaluate(url: str, names: Sequence[str], *, started: bool) -> list[Any]:
    """MTEB's results of the tasks; `started`: with a daemon of its own."""
    import mteb  # noqa: PLC0415 - it loads torch

    tasks = mteb.get_tasks(tasks=list(names))
    async with nullcontext() if not started else daemon(url):
        model = Memoryd(url, meta())
        return list(await asyncio.to_thread(mteb.evaluate, model, tasks, cache=None))


def main() -> None:
    """Runs the tasks."""
    parser = arguments(__doc__ or "")
    parser.add_argument("task", nargs="*", default=TASKS, help="names of tasks of MTEB")
    options = parser.parse_args()
    try:
        import mteb  # noqa: F401, PLC0415
    except ImportError:
        raise SystemExit("MTEB is not installed: `pip install mteb` in this environment.") from None
    given = options.database_url
    try:
        with nullcontext(given) if given else database(None) as url:
            results = asyncio.run(evaluate(url, options.task, started=not given))
    except ConnectionError as error:
        raise SystemExit(f"MTEB cannot fetch what it needs: {error}") from None
    print_table(["", *SCORES], [(r.task_name, [shown(_mean(r, s)) for s in SCORES]) for r in results])
    report("lmeb", [r.to_dict() for r in results], options.json)


def _mean(result: Any, score: str) -> float | None:
    """Over the splits and subsets that have it."""
    found = [s[score] for split in result.scores.values() for s in split if s.get(score) is not None]
    return sum(found) / len(found) if found else None


if __name__ == "__main__":
    main()
