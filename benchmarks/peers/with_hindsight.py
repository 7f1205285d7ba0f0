"""hindsight with the LLM provider `none`: rows are kept as chunks, and found by vector, words, graph and time.

Its engine runs in this process, as in its own server, without HTTP between. The rankings are fused by reciprocal rank; its
cross-encoder is a model that would be downloaded.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import datetime

from benchmarks.peers.lines import DATABASE_URL, DIMENSIONS, EMBEDDINGS_URL, Row, serve

SETTINGS = {
    "DATABASE_URL": DATABASE_URL,
    "LLM_PROVIDER": "none",
    "EMBEDDINGS_PROVIDER": "openai",
    "EMBEDDINGS_OPENAI_API_KEY": "local",
    "EMBEDDINGS_OPENAI_BASE_URL": EMBEDDINGS_URL,
    "EMBEDDINGS_OPENAI_MODEL": "local",
    "EMBEDDINGS_OPENAI_DIMENSIONS": str(DIMENSIONS),
    "RERANKER_PROVIDER": "rrf",
    "LOG_LEVEL": "error",
}
os.environ.update({f"HINDSIGHT_API_{name}": value for name, value in SETTINGS.items()})

from hindsight_api import MemoryEngine, RequestContext  # noqa: E402 - it reads the environment when it is imported

TOKENS = 100_000
"""Of an answer: enough for ten long rows. The default of 4,096 would cut it."""


async def main() -> None:
    """Serves: a bank for each user, a document for each row."""
    engine = MemoryEngine()
    await engine.initialize()
    context = RequestContext()

    async def write(rows: Sequence[Row]) -> None:
        contents = [
            {"content": row["text"], "document_id": row["id"]}
            | ({"event_date": datetime.fromisoformat(row["time"])} if row["time"] else {})
            for row in rows
        ]
        await engine.retain_batch_async(rows[0]["user"], contents, request_context=context)

    async def ask(user: str, question: str, count: int) -> list[str]:
        found = await engine.recall_async(user, question, max_tokens=TOKENS, request_context=context)
        # A long row is several chunks.
        return list(dict.fromkeys(str(one.document_id) for one in found.results))[:count]

    await serve(write, ask)
    await engine.close()


asyncio.run(main())
