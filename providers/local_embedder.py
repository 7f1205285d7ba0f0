"""The embedder that needs no key, no network and no GPU: wordllama's 256-dimensional token vectors, averaged.

A text's vector is the mean of its tokens' vectors, scaled to unit length; the answers equal wordllama's own. Its package is
only the source of two files, the tokenizer and the weights, and is never imported: its import sets up the root logger and pulls
an HTTP stack, and its loader keeps the 16 MB of half-precision weights as 32 MB of single precision. Here the weights stay in
the file, mapped, and only the rows of tokens that occur are widened.

Promise: memory is bounded whatever the texts are (no padding, one piece of text at a time), and the event
loop never waits longer than for a handful of short texts.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

from providers.ports import Instructions, Vectors
from providers.vectors import clean, grouped, unit

NAME = "local/wordllama-256"
DIMENSIONS = (64, 128, 256)

MAX_CHARACTERS = 8_192
"""Of a text; what follows would hardly turn the mean of two thousand tokens."""

INLINE_TEXTS = 8
INLINE_CHARACTERS = 4_096
"""A thread hop costs about as much as embedding these; anything bigger leaves the event loop."""

GROUP_BYTES = 16_384
PIECE_TOKENS = 4_096


class LocalEmbedder:
    """Embeds with the wordllama model, in this process. Implements `WordEmbedder`.

    `dimensions` is 64, 128 or 256: the model is trained so that the first numbers of a vector are a
    vector too (Matryoshka). The first construction reads the files (about 0.1 s); it raises ValueError for other dimensions,
    RuntimeError if the wordllama package is missing or has another model.
    """

    def __init__(self, *, dimensions: int = 256) -> None:
        if dimensions not in DIMENSIONS:
            raise ValueError(
                f"{NAME} cannot have {dimensions} dimensions: "
                "set MEMORYD_EMBEDDING_DIMENSIONS to 64, 128 or 256, or unset it"
            )
        folder = package_folder()
        self.name = NAME
        self.dimensions = dimensions
        self.remote = False
        self.instructions = Instructions()
        self._weights = read_weights(weights_file(folder))[:, :dimensions]
        self._tokenizer = _read_tokenizer(tokenizer_file(folder))
        # Releases of tokenizers from 1.0 on do not tell its size.
        if getattr(self._tokenizer, "get_vocab_size", int)() > len(self._weights):
            raise RuntimeError("wordllama's tokenizer and weights do not belong together: reinstall memoryd")
        # One thread: a second would double the memory of a batch and gain nothing beside a busy Postgres.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embed")

    def retry_in(self) -> float:
        return 0.0  # it runs in this process

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Answer one unit vector for each text, shape (len(texts), dimensions); see `Embedder.embed`.

        Only the first 8,192 characters of a text count. A text without tokens gets the vector of `blank`.
        """
        cleaned = [clean(text, MAX_CHARACTERS) for text in texts]
        if len(cleaned) <= INLINE_TEXTS and sum(map(len, cleaned)) <= INLINE_CHARACTERS:
            return self._embed(cleaned)
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._embed, cleaned)

    def pieces(self, words: Sequence[str]) -> list[int]:
        """See `WordEmbedder.pieces`."""
        return [len(e) for e in self._encode(list(words))]

    async def close(self) -> None:
        """Let the thread end after the batch that it is at."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _embed(self, texts: list[str]) -> Vectors:
        row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        rows = np.zeros((len(row_of), self.dimensions), dtype=np.float32)
        start = 0
        # The tokenizer keeps 100 bytes a token.
        for group in grouped(row_of, most=GROUP_BYTES, cost=lambda text: len(text.encode())):
            self._add_tokens(group, rows[start : start + len(group)])
            start += len(group)
        return unit(rows)[[row_of[text] for text in texts]]

    def _encode(self, texts: list[str]) -> list[Encoding]:
        # Before 1.0 encode_batch() is slower, since it also tells where each token stands.
        encode = getattr(self._tokenizer, "encode_batch_fast", self._tokenizer.encode_batch)
        encodings: list[Encoding] = encode(texts, add_special_tokens=False)
        return encodings

    def _add_tokens(self, texts: list[str], rows: Vectors) -> None:
        encodings = self._encode(texts)
        lengths = [len(encoding) for encoding in encodings]
        flat = np.fromiter(chain.from_iterable(e.ids for e in encodings), dtype=np.int32, count=sum(lengths))
        del encodings
        # Widening half precision is the dearest step, and the texts of a fleet share most of their tokens.
        tokens, inverse = np.unique(flat, return_inverse=True)
        widened = self._weights[tokens].astype(np.float32)
        start = 0
        for row, length in enumerate(lengths):
            for piece in range(start, start + length, PIECE_TOKENS):
                end = min(piece + PIECE_TOKENS, start + length)
                rows[row] += widened[inverse[piece:end]].sum(axis=0)
            start += length


def package_folder() -> Path:
    """Where the package wordllama is installed. Raises RuntimeError if it is not."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"{NAME} needs the package wordllama: reinstall memoryd, or set MEMORYD_EMBEDDER")
    return Path(spec.submodule_search_locations[0])


def tokenizer_file(folder: Path) -> Path:
    """The tokenizer within the package's folder."""
    return folder / "tokenizers" / "l2_supercat_tokenizer_config.json"


def weights_file(folder: Path) -> Path:
    """The tokens' vectors within the package's folder."""
    return folder / "weights" / "l2_supercat_256.safetensors"


@cache
def _read_tokenizer(path: Path) -> Tokenizer:
    """Once in a process: it takes 0.1 s."""
    # Its thread pool would take cores from Postgres for a third more speed. The user's word wins.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizer = Tokenizer.from_file(str(path))
    # Its cache is keyed by words, but to this model a text is one word: no hits, and 80 MB when full. 1.0 hides it.
    with suppress(AttributeError):
        tokenizer.model._resize_cache(0)  # noqa: SLF001 - the only door to it
    return tokenizer


def read_weights(path: Path) -> npt.NDArray[np.float16]:
    """Map a safetensors file: 8 bytes of header length, a JSON header, the numbers row by row.

    Answers shape (tokens, 256). Raises RuntimeError if the file has anything else.
    """
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))["embedding.weight"]
    except (OSError, ValueError, KeyError) as error:
        raise RuntimeError(f"cannot read {path.name} of the package wordllama: reinstall memoryd") from error
    if header["dtype"] != "F16" or header["shape"][1] != 256:
        raise RuntimeError(f"{path.name} has another model than {NAME}: reinstall memoryd")
    rows, width = header["shape"]
    offset = 8 + size + header["data_offsets"][0]
    try:
        return np.asarray(np.memmap(path, dtype="<f2", mode="r", offset=offset, shape=(rows, width)))
    except ValueError as error:
        raise RuntimeError(f"cannot read {path.name} of the package wordllama: reinstall memoryd") from error
