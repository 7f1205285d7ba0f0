"""Models whose cosines say other things than the local one's: thresholds hold for them, and they get their instructions."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import numpy as np
import pytest

from providers.build import instructions_for
from tests.support.database.schemas import apply, connected
from tests.support.processes.daemons import Daemons
from tests.support.services.openai_server import Fault, OpenAIServer, vector_of
from tests.support.waiting import IDLE, until

DIMENSIONS = 512
SAME = {"automobile": "car", "repaired": "mended", "garage": "workshop"}
ROWS = (
    "The car was mended at the workshop",
    "Whales migrate southwards each winter",
    "Rye bread needs sourdough",
    "My passport expired",
    "Violin lessons happen on Thursdays",
    "Rain flooded fields near Utrecht",
    "Invoices went to accounting",
    "Peanuts trigger her allergy",
)


class Model(OpenAIServer):
    """Texts are near by the words that they share, synonyms too. `common`: the cosine of unrelated texts; `noise`: what is said
    by nothing.
    """

    def __init__(self, *, common: float, noise: float) -> None:
        super().__init__(dimensions=DIMENSIONS)
        self._common, self._noise = common, noise

    def embeddings(self, request: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        """See `OpenAIServer`."""
        data = [
            {"object": "embedding", "index": n, "embedding": base64.b64encode(self._vector(t)).decode()}
            for n, t in enumerate(request["input"])
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {"object": "list", "model": request["model"], "data": data, "usage": usage}

    def _vector(self, text: str) -> bytes:
        said = text.removeprefix("passage: ").removeprefix("query: ").lower().strip("?.").split()
        words = sum(vector_of(SAME.get(w, w), DIMENSIONS) for w in said if w not in ("the", "was", "at"))
        words = np.asarray(words) / np.linalg.norm(words)
        own = np.sqrt(1 - self._noise) * words + np.sqrt(self._noise) * vector_of(text, DIMENSIONS)
        axis = np.eye(1, DIMENSIONS)[0]
        found = np.sqrt(1 - self._common) * own / np.linalg.norm(own) + np.sqrt(self._common) * axis
        return np.asarray(found, dtype="<f4").tobytes()


@pytest.fixture(params=[(0.75, 0.0), (0.0, 0.7)], ids=["cosines at .75", "cosines near 0"])
async def model(request: pytest.FixtureRequest) -> AsyncIterator[Model]:
    common, noise = request.param
    with Model(common=common, noise=noise) as started:
        yield started


async def test_thresholds_and_instructions_of_any_model(model: Model, empty_url: str, tmp_path: Path) -> None:
    # The background's first measurement fails.
    model.script(Fault.status(500))
    instructions = instructions_for("e5-made-up", query=None, document=None)
    await apply(empty_url, dimensions=DIMENSIONS, embedder="openai/e5-made-up", instructions=instructions)
    daemons = Daemons(empty_url, tmp_path)
    settings: dict[str, Any] = {
        "embedder": "openai/e5-made-up",
        "embedding_dimensions": DIMENSIONS,
        "openai_base_url": model.base_url,
    }
    try:
        async with connected(empty_url) as connection:
            daemon = await daemons.start(**settings)
            calibrated = await daemon.event("embedder_calibrated")
            assert abs(calibrated["background"] - model._common) < 0.05
            user = uuid4()
            for text in (*ROWS, "Automobile repaired at the garage"):
                await connection.execute(
                    "insert into agent_memory (agent_id, user_id, content) values ('alice', $1, $2)",
                    user,
                    text,
                )
            await until(connection, IDLE)
            await links_join_only_what_belongs_together(connection)
            await recall_tells_the_related_from_the_unrelated(connection, user)
            assert {t.partition(": ")[0] for t in model.texts} == {"passage", "query"}
            assert await connection.fetchval("select bool_and(content not like '%: %') from agent_memory")
            assert await connection.fetchval(
                'select value = \'{"query": "query: ", "document": "passage: "}\' from memoryd.settings '
                "where key = 'instructions'"
            )
    finally:
        await daemons.kill_all()


async def links_join_only_what_belongs_together(connection: asyncpg.Connection) -> None:
    """Memories of one hour have 0.2 for that alone."""
    found = await connection.fetch(
        "select strength, (a.content || b.content) like '%Automobile%' and (a.content || b.content) like '%car%' as alike "
        "from memory_associations l join agent_memory a on a.id = l.memory_id join agent_memory b on b.id = l.related_memory_id"
    )
    assert [r["strength"] > 0.3 for r in found if r["alike"]] == [True]
    assert all(r["strength"] < 0.25 for r in found if not r["alike"])


async def recall_tells_the_related_from_the_unrelated(connection: asyncpg.Connection, user: object) -> None:
    """By a request, whose question a daemon embeds."""
    asked = await connection.fetchval(
        "insert into memory_requests (kind, query, user_id) values ('recall', 'automobile repaired garage?', $1) returning id",
        user,
    )
    await until(connection, "select status = 'done' from memory_requests where id = $1", asked)
    found = json.loads(await connection.fetchval("select result from memory_requests where id = $1", asked))
    similarity = {r["content"]: r["similarity"] for r in found}
    assert similarity.pop(ROWS[0]) > 0.5
    similarity.pop("Automobile repaired at the garage")
    assert all(s is None or s < 0.3 for s in similarity.values())
