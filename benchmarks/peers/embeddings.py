"""A server on loopback that answers POST /v1/embeddings as OpenAI does, with memoryd's local embedder.

All peers get the same vectors from it, so that what is compared is what they do with them. No model is downloaded.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open, as those to a real service do
        disable_nagle_algorithm = True
        wbufsize = -1  # head and body in one packet

        def do_POST(self) -> None:
            began = time.perf_counter()
            time.sleep(pause)
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
            body = json.dumps(answer(asyncio.run(embedder.embed(texts)), request)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            if taken is not None:
                taken.append(time.perf_counter() - began)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        asyncio.run(embedder.close())
