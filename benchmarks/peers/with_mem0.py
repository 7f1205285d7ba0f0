"""mem0 on pgvector: `infer=False`, so that a row is kept as it is and no language model is asked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

os.environ["MEM0_TELEMETRY"] = "False"

from mem0 import Memory

from benchmarks.peers.lines import DATABASE_URL, DIMENSIONS, EMBEDDINGS_URL, Row, serve

SERVICE = {"api_key": "local", "openai_base_url": EMBEDDINGS_URL}
CONFIG = {
    "vector_store": {
        "provider": "pgvector",
        "config": {"connection_string": DATABASE_URL, "embedding_model_dims": DIMENSIONS},
    },
    "embedder": {"provider": "openai", "config": {**SERVICE, "model": "local", "embedding_dims": DIMENSIONS}},
    "llm": {"provider": "openai", "config": SERVICE},
}


async def main() -> None:
    """Serves. mem0 gives its own ids."""
    memory = Memory.from_config(CONFIG)
    rows_by_id: dict[str, str] = {}

    async def write(rows: Sequence[Row]) -> None:
        said = [{"role": "user", "content": row["text"]} for row in rows]
        added = memory.add(said, user_id=rows[0]["user"], infer=False)["results"]
        rows_by_id.update(zip([one["id"] for one in added], [row["id"] for row in rows], strict=True))

    async def ask(user: str, question: str, count: int) -> list[str]:
        found = memory.search(question, top_k=count, filters={"user_id": user})["results"]
        return [rows_by_id[one["id"]] for one in found]

    await serve(write, ask)


asyncio.run(main())
