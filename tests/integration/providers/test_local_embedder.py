"""The local embedder: equal to wordllama, safe with any text, and small."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

from providers.build import build_embedder
from providers.local_embedder import LocalEmbedder
from providers.ports import Embedder, Vectors
from tests.support.repository import ROOT

TEXTS = (
    "Fix the race in the queue worker",
    "docs/guide.md | 12 ++++++------\n 1 file changed, 6 insertions(+), 6 deletions(-)",
    "    indented\tand\r\nfull of   blanks   ",
    "Grüße aus Köln: 東京タワー, שלום, 👩‍🚀",
    "<s> a special token </s>",
    " ",
    "retry " * 900,
)


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture
def root_logger_restored() -> Iterator[None]:
    """The real wordllama's import sets up the root logger."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def wordllama_embed(texts: list[str], dimensions: int) -> Vectors:
    import wordllama  # noqa: PLC0415 - its import sets up the root logger, which a fixture must undo

    folder = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(
        cache_dir=folder, trunc_dim=None if dimensions == 256 else dimensions, disable_download=True
    )
    # One text at a time: padding makes no difference then.
    rows: Vectors = np.concatenate([model.embed([text], norm=True) for text in texts])
    return rows


def made_up(count: int, seed: int = 1) -> list[str]:
    random = Random(seed)
    words = [
        f"{stem}{end}" for stem in ("deploy", "test", "queue", "merge") for end in ("", "s", "ed", "ing")
    ]
    return [" ".join(random.choices(words, k=30)) + f" #{number}" for number in range(count)]


@pytest.mark.usefixtures("root_logger_restored")
@pytest.mark.parametrize("dimensions", [64, 128, 256])
async def test_embeddings_equal_those_of_wordllama(dimensions: int) -> None:
    texts = [*TEXTS, *made_up(200)]
    vectors = await LocalEmbedder(dimensions=dimensions).embed(texts)

    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, wordllama_embed(texts, dimensions), atol=1e-5)


async def test_texts_of_similar_meaning_have_similar_embeddings(embedder: Embedder) -> None:
    question, answer, other = await embedder.embed(
        ["the database connection failed", "cannot connect to postgres", "paint the garden fence green"]
    )

    assert question @ answer > question @ other + 0.2


@pytest.mark.parametrize(
    "text",
    ["", "\x00", "\x00\x00", "\ud800", "a\udfffb", "\ud83d\ude00", "\u200b", "\ufeff", "\n", "\U0010ffff"],
    ids=ascii,
)
async def test_any_text_gets_a_finite_unit_vector(embedder: Embedder, text: str) -> None:
    [vector] = await embedder.embed([text])

    assert vector.shape == (256,)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


async def test_a_text_without_tokens_has_the_same_vector_beside_any_others(embedder: Embedder) -> None:
    single = await embedder.embed([""])
    among = await embedder.embed(["first", "", *made_up(20), ""])

    np.testing.assert_array_equal(among[[1, -1]], np.repeat(single, 2, axis=0))


async def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    assert (await embedder.embed([])).shape == (0, 256)


async def test_order_and_batch_make_no_difference(embedder: Embedder) -> None:
    texts = [*made_up(70), *TEXTS, *made_up(5)]
    together = await embedder.embed(texts)
    single = np.concatenate([await embedder.embed([text]) for text in texts])

    np.testing.assert_allclose(together, single, atol=1e-6)
    np.testing.assert_array_equal(together[:5], together[-5:])


async def test_only_the_beginning_of_a_long_text_counts(embedder: Embedder) -> None:
    beginning = "word " * 1638 + "12"
    assert len(beginning) == 8192

    vectors = await embedder.embed([beginning, beginning + "another ending" * 400_000])

    np.testing.assert_array_equal(vectors[0], vectors[1])


async def test_small_batches_run_on_the_event_loop_and_big_ones_in_a_thread() -> None:
    embedder = LocalEmbedder()
    before = set(threading.enumerate())
    await embedder.embed(["short"] * 8)
    assert set(threading.enumerate()) == before

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticker = asyncio.create_task(tick())
    await embedder.embed(made_up(500))
    ticker.cancel()
    await embedder.close()
    assert ticks > 2


async def test_concurrent_batches_do_not_mix(embedder: Embedder) -> None:
    batches = [made_up(40, seed=seed) for seed in range(8)]
    single = [await embedder.embed(batch) for batch in batches]
    together = await asyncio.gather(*(embedder.embed(batch) for batch in batches))

    for one, other in zip(single, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_build_chooses_the_dimensions() -> None:
    def build(dimensions: int | None) -> Embedder:
        return build_embedder(
            "local/wordllama-256",
            dimensions=dimensions,
            base_url=None,
            api_key=None,
            timeout_seconds=1,
            on_circuit_change=lambda *_: None,
        )

    assert [build(wanted).dimensions for wanted in (None, 64, 128, 256)] == [256, 64, 128, 256]
    assert build(64).name == "local/wordllama-256"
    assert not build(64).remote
    with pytest.raises(ValueError, match="MEMORYD_EMBEDDING_DIMENSIONS to 64, 128 or 256"):
        build(300)


FOOTPRINT = """
import asyncio, logging, sys
import psutil

def resident():
    return psutil.Process().memory_info().rss / 1e6

import numpy
before = resident()
from providers.local_embedder import LocalEmbedder

async def main():
    embedder = LocalEmbedder()
    for batch in range(0, 10_000, 64):
        await embedder.embed([f"{number} " + "words of its own " * 9 for number in range(batch, batch + 64)])
    print(resident() - before)
    await embedder.embed([chr(0x1F600) * 8192 + str(number) for number in range(64)])
    print(resident() - before)
    print(sorted({"wordllama", "openai", "requests", "huggingface_hub", "httpx2"} & set(sys.modules)))
    print(len(logging.getLogger().handlers), logging.getLevelName(logging.getLogger().level))

asyncio.run(main())
"""


def test_a_fresh_process_has_a_small_footprint_and_no_side_effects() -> None:
    run = subprocess.run(
        [sys.executable, "-c", FOOTPRINT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    many_texts, huge_texts, modules, root_logger = run.stdout.splitlines()

    # The tokenizer's cache would be 80 MB by now.
    assert float(many_texts) < 60
    assert float(huge_texts) < 90
    assert modules == "[]"
    assert root_logger == "0 WARNING"
