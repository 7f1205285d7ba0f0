"""LangGraph's PostgresStore: a namespace for each user, vectors in an HNSW index, search by cosine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from langgraph.store.base import PutOp
from langgraph.store.postgres import PostgresStore

from benchmarks.peers.lines import DATABASE_URL, DIMENSIONS, Embeddings, Row, serve


async def main() -> None:
    """Serves."""
    index = {"dims": DIMENSIONS, "embed": Embeddings(), "fields": ["text"]}
    with PostgresStore.from_conn_string(DATABASE_URL, index=index) as store:
        store.setup()

        async def write(rows: Sequence[Row]) -> None:
            store.batch([PutOp(("memories", r["user"]), r["id"], {"text": r["text"]}) for r in rows])

        async def ask(user: str, question: str, count: int) -> list[str]:
            return [item.key for item in store.search(("memories", user), query=question, limit=count)]

        await serve(write, ask)


asyncio.run(main())
