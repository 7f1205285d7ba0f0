"""A server on loopback that answers POST /v1/embeddings as OpenAI does, with memoryd's local embedder.

All peers get the same vectors from it, so that what is compared is what they do with them. No model is downloaded.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.served import Handler, served
from providers.local_embedder import LocalEmbedder
from providers.ports import Vectors


def answer(vectors: Vectors, request: dict[str, Any]) -> dict[str, object]:
    """The body of a response: numbers, or their bytes in base64 where the client asks for that."""
    packed = request.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(v.astype("<f4").tobytes()).decode() if packed else v.tolist(),
        }
        for index, v in enumerate(np.asarray(vectors))
    ]
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    return {"object": "list", "data": data, "model": request.get("model"), "usage": usage}


@contextmanager
def embedding_server(*, pause: float = 0.0, taken: list[float] | None = None) -> Iterator[str]:
    """Its base URL, with the /v1. It waits for `pause` before each answer; `taken` gets the seconds of each."""
    embedder = LocalEmbedder()

    class Embeddings(Handler):
        def respond(self) -> None:
            began = time.perf_counter()
            time.sleep(pause)
            request = json.loads(self.body())
            texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
            self.answer(json.dumps(answer(asyncio.run(embedder.embed(texts)), request)).encode())
            if taken is not None:
                taken.append(time.perf_counter() - began)

    with served(Embeddings) as address:
        yield f"{address}/v1"
    asyncio.run(embedder.close())
