"""The embedder behind the OpenAI protocol: OpenAI itself, or any server that speaks it (Ollama, vLLM, LiteLLM ...).

Promise: the answers are in the order of the texts, whatever the order of the reply, and have the dimensions that the database
was made for; a reply that cannot be trusted to be so is a fault of the provider, never a wrong vector.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from providers.openai_client import connect, misunderstood, translated
from providers.ports import Instructions, RejectionError, UnavailableError, Vectors
from providers.vectors import blank, clean, grouped, unit

SETTING = "MEMORYD_EMBEDDER"

MAX_CHARACTERS = 24_000
"""Of a text: English prose of this length stays below the 8,191 tokens that OpenAI's models take."""

SHORTER_BYTES = (8_000, 1_500)
"""What a refused text is cut to: below 8,191 tokens in any language, and below the 512 of small local models."""

MAX_CHARACTERS_PER_REQUEST = 250_000
"""A request may have 300,000 tokens; a character is hardly ever more than one."""

NO_INSTRUCTIONS = Instructions()


class OpenAIEmbedder:
    """Embeds with a model of the OpenAI protocol. Implements `Embedder`.

    `batch` is the largest number of texts in a request. `send_dimensions` asks the server for vectors of
    `dimensions` numbers; None does so for the models that are known to have a choice (text-embedding-3-*).
    Raises ValueError without a key and a base_url.
    """

    def __init__(
        self,
        *,
        model: str,
        dimensions: int,
        base_url: str | None,
        api_key: str | None,
        timeout_seconds: float,
        batch: int = 256,
        send_dimensions: bool | None = None,
        instructions: Instructions = NO_INSTRUCTIONS,
    ) -> None:
        self.name = f"openai/{model}"
        self.dimensions = dimensions
        self.remote = True
        self.instructions = instructions
        self._model = model
        self._timeout_seconds = timeout_seconds
        self._batch = batch
        self._send_dimensions = (
            model.startswith("text-embedding-3-") if send_dimensions is None else send_dimensions
        )
        self._client = connect(base_url=base_url, api_key=api_key, timeout_seconds=timeout_seconds)

    def retry_in(self) -> float:
        return 0.0  # the circuit around it knows when to ask again

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Answer one unit vector for each text, shape (len(texts), dimensions); see `Embedder.embed`.

        Only the first 24,000 characters of a text count. A blank text is not sent, and gets the vector of `blank`. A text that
        is refused in a request of its own is cut shorter and tried again, since it may have had too many tokens.
        """
        cleaned = [clean(text, MAX_CHARACTERS) for text in texts]
        distinct = list(dict.fromkeys(text for text in cleaned if text.strip()))
        answers = {text: blank(self.dimensions) for text in cleaned if not text.strip()}
        for request in grouped(distinct, most=MAX_CHARACTERS_PER_REQUEST, count=self._batch):
            answers.update(zip(request, await self._ask(request), strict=True))
        if not cleaned:
            return np.empty((0, self.dimensions), dtype=np.float32)
        return np.stack([answers[text] for text in cleaned])

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, texts: list[str]) -> Vectors:
        try:
            return await self._ask_once(texts)
        except RejectionError as rejected:
            if len(texts) > 1:
                raise
            verdict = rejected
        whole = texts[0].encode()
        for limit in SHORTER_BYTES:
            if len(whole) <= limit:
                continue
            try:
                return await self._ask_once([whole[:limit].decode(errors="ignore")])
            except RejectionError as rejected:
                verdict = rejected
        raise verdict

    async def _ask_once(self, texts: list[str]) -> Vectors:
        async with translated(self.name, setting=SETTING, timeout_seconds=self._timeout_seconds):
            reply = await self._client.embeddings.create(
                model=self._model,
                input=texts,
                # A quarter of the bytes, and nothing to parse. Servers that do not know it answer with numbers.
                encoding_format="base64",
                extra_body={"dimensions": self.dimensions} if self._send_dimensions else None,
            )
            rows = sorted(((item.index, _numbers(item.embedding)) for item in reply.data), key=itemgetter(0))
        if [index for index, _ in rows] != list(range(len(texts))):
            raise UnavailableError(
                f"{self.name}: {len(rows)} vectors came for {len(texts)} texts, or wrongly numbered",
                provider=self.name,
            )
        odd = next((row.size for _, row in rows if row.shape != (self.dimensions,)), None)
        if odd is not None:
            raise UnavailableError(
                f"{self.name}: the reply has vectors of {odd} dimensions, not {self.dimensions}: "
                f"check {SETTING} and MEMORYD_EMBEDDING_DIMENSIONS",
                provider=self.name,
            )
        vectors = np.stack([row for _, row in rows])
        if not np.isfinite(vectors).all():
            raise misunderstood(self.name)
        return unit(vectors)


def _numbers(embedding: object) -> Vectors:
    """Read a vector in either form of the protocol: base64 of little-endian single precision, or a list."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
    return np.asarray(embedding, dtype=np.float32)
