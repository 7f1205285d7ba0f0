"""Evidence recall with another embedding model, beside the same questions asked by their words alone.

    MEMORYD_EMBEDDER=... python -m benchmarks.search.models --data FILE...

The embedder is that of the settings (MEMORYD_EMBEDDER, MEMORYD_EMBEDDING_DIMENSIONS, MEMORYD_OPENAI_BASE_URL and the like). A
daemon embeds the rows with it. The questions go through a daemon's part that embeds them, since the database cannot: with this
embedder, and as if it were down. FILEs and figures are as for benchmarks.search.evidence, which has those of the local model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Figures, arguments, database, print_table, report, shown
from benchmarks.search.bodies import read, write
from benchmarks.search.evidence import Means, ask_through_daemon
from daemon.cli.common import embedder_of
from daemon.db.settings import model_of
from daemon.settings import Settings, load_settings
from providers.ports import Embedder, UnavailableError, Vectors

SHOWN = ("@5", "@10", "@20", "share@10", "nDCG@10", "sessions@10")
PASSED_ON = (
    "embedder", "embedding_dimensions", "openai_base_url", "query_instruction", "document_instruction",
)  # fmt: skip
PATIENCE = 600
"""Seconds that a call to the embedder may take: a model on a processor embeds some ten texts a second."""


class Down:
    """The same embedder, which never answers."""

    remote = True

    def __init__(self, embedder: Embedder) -> None:
        self.name = embedder.name
        self.dimensions = embedder.dimensions
        self.instructions = embedder.instructions

    def retry_in(self) -> float:
        """See `Embedder`."""
        return 0.0

    async def embed(self, _texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        raise UnavailableError("it is left out", provider=self.name, retry_in=0.0, asked=False)

    async def close(self) -> None:
        """There is nothing to close."""


async def measure(url: str, texts: Sequence[dict[str, Any]], settings: Settings) -> dict[str, Means]:
    """Writes a set and asks its questions, with the embedder and without."""
    given = {name: value for name in PASSED_ON if (value := getattr(settings, name)) is not None}
    bodies, _ = await write(url, texts, provider_timeout_seconds=PATIENCE, **given)
    embedder = embedder_of(settings)
    figures = {}
    # By words first: what the embedder has answered once is kept in the database, and asked of nobody again.
    for way, asked in (("by words alone", Down(embedder)), (settings.embedder, embedder)):
        _, tally = await ask_through_daemon(url, bodies, asked)
        figures[way] = tally.means()
    await embedder.close()
    return figures


def main() -> None:
    """Each set in a database of its own."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--data", type=Path, required=True, nargs="+", help="bodies of text with questions")
    options = parser.parse_args()
    settings = load_settings(provider_timeout_seconds=PATIENCE)
    lines: list[Figures] = []
    for name, texts in read(options.data).items():
        with database(options.database_url, model_of(embedder_of(settings))) as url:
            figures = asyncio.run(measure(url, texts, settings))
        print(f"\n{name}")
        columns = [s for s in SHOWN if s in figures[settings.embedder]]
        print_table(["", *columns], [(way, [shown(f[s]) for s in columns]) for way, f in figures.items()])
        lines.append({"benchmark": f"embedding model: {name}", **figures})
    report("models", lines, options.json)


if __name__ == "__main__":
    main()
