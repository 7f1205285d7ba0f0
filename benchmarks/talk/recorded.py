"""A server of OpenAI's protocol that passes questions on and keeps the answers in a file, or answers from such a file."""

from __future__ import annotations

import hashlib
import json
import threading
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from benchmarks.served import Handler, served


class Recorder:
    """The server, in threads of its own. Use it as a context manager; `play`: answers from the file alone."""

    def __init__(
        self, file: Path | None, *, play: bool, upstream: str | None, key: str | None, timeout_seconds: float
    ) -> None:
        self._file = file
        self._play = play
        self._upstream = upstream
        self._api_key = key
        self._timeout = timeout_seconds
        self._lock = threading.Lock()
        self._kept: dict[str, dict[str, Any]] = {}
        self.calls = self.tokens = self.prompt_tokens = self.missing = self.other_prompt = 0
        if file is not None and file.exists():
            kept = json.loads(file.read_text(encoding="utf-8"))
            self._kept = {_key(one["request"]): one for one in kept}
        elif play:
            raise SystemExit(f"{file} is not there")
        self._serving = ExitStack()
        self.base_url = ""
        """Where it listens."""

    def __enter__(self) -> Self:
        self.base_url = f"{self._serving.enter_context(served(self._handler()))}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.close()

    def answer(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body."""
        key = _key(request)
        with self._lock:
            kept = self._kept.get(key)
        if kept is None and self._play:
            with self._lock:
                self.missing += 1
            return 404, {"error": {"message": "not in the recording", "code": "not_recorded"}}
        if kept is None:
            kept = {"request": request, "reply": self._ask(request)}
        with self._lock:
            self._kept[key] = kept
            self.calls += 1
            usage = kept["reply"].get("usage") or {}
            self.tokens += usage.get("total_tokens", 0)
            self.prompt_tokens += usage.get("prompt_tokens", 0)
            self.other_prompt += kept["request"]["messages"][0] != request["messages"][0]
            if self._file is not None and not self._play:
                text = json.dumps(list(self._kept.values()), ensure_ascii=False, indent=1)
                self._file.write_text(text + "\n", encoding="utf-8")
        reply: dict[str, Any] = kept["reply"]
        return 200, reply

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._upstream is None:
            raise SystemExit("set MEMORYD_OPENAI_BASE_URL, or --play a recording")
        sent = urllib.request.Request(
            f"{self._upstream.rstrip('/')}/chat/completions",
            data=json.dumps(request).encode(),
            headers={
                "Content-Type": "application/json",
                "Authorization": f"Bearer {self._api_key or 'none'}",
            },
        )
        with urllib.request.urlopen(sent, timeout=self._timeout) as reply:
            read: dict[str, Any] = json.loads(reply.read())
        return read

    def _handler(self) -> type[Handler]:
        owner = self

        class Recording(Handler):
            def respond(self) -> None:
                try:
                    status, reply = owner.answer(json.loads(self.body()))
                except OSError as error:
                    status, reply = 503, {"error": {"message": str(error)}}
                self.answer(json.dumps(reply).encode(), status=status)

        return Recording


def _key(request: dict[str, Any]) -> str:
    """By what was asked, not by the instructions: a recording of other instructions is played, and that is said."""
    return hashlib.sha256(json.dumps(request["messages"][1:], sort_keys=True).encode()).hexdigest()
