"""The peer's side of the benchmark: one JSON object a line on stdin, one answer a line on stdout.

It runs in the peer's own environment, so it imports nothing of memoryd and nothing that Python does not bring along.

    {"write": [{"id", "user", "text", "time"}, ...]}      -> {}
    {"ask": [user, question, count]}                      -> {"ids": [...], "seconds": ...}

The time is taken here, around the peer's own call, so that the pipe costs nobody anything.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

DATABASE_URL = os.environ.get("PEER_DATABASE_URL", "")
EMBEDDINGS_URL = os.environ.get("PEER_EMBEDDINGS_URL", "")
DIMENSIONS = 256
Row = dict[str, Any]


async def serve(
    write: Callable[[Sequence[Row]], Awaitable[object]],
    ask: Callable[[str, str, int], Awaitable[list[str]]],
) -> None:
    """Answers until stdin ends. What the peer itself prints goes to stderr (`take_stdout`)."""
    answers = take_stdout()
    loop = asyncio.get_running_loop()
    print("{}", file=answers, flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request = json.loads(line)
        answer: dict[str, object] = {}
        try:
            if "write" in request:
                await write(request["write"])
            else:
                began = time.perf_counter()
                found = await ask(*request["ask"])
                answer = {"seconds": time.perf_counter() - began, "ids": found}
        except Exception as problem:  # noqa: BLE001 - the benchmark reports it as the peer's
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), file=answers, flush=True)


def take_stdout() -> Any:
    """The pipe to the benchmark, from now on ours alone."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


class Embeddings:
    """A client of the embedding server, for peers that take a function: one connection, kept open."""

    def __init__(self) -> None:
        parts = urlsplit(EMBEDDINGS_URL)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        self._path = f"{parts.path}/embeddings"

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        body = json.dumps({"model": "local", "input": list(texts)})
        self._connection.request("POST", self._path, body, {"Content-Type": "application/json"})
        answer = json.loads(self._connection.getresponse().read())
        return [one["embedding"] for one in answer["data"]]
