"""The benchmark of facts: what it counts as right, and recordings, over real HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from benchmarks.talk.facts import Memory, _judged
from benchmarks.talk.labelled import read_chats
from benchmarks.talk.recorded import Recorder
from tests.support.services.openai_server import OpenAIServer

PLAIN = [
    {
        "user": "oda",
        "sessions": [[[None, "I keep bees"], ["Ivo", "and I a llama"]], [[None, "the bees are gone"]]],
        "expect": [["llama", "llama"], ["kiln", "kiln"], ["loom", "loom"]],
        "superseded": [["bees", "keeps bees"]],
        "never": [["unicorn", "unicorn"]],
        "questions": [["What does Ivo keep?", "llama", None]],
    }
]
TIMED = {
    "schema": "...",
    "chats": [
        {
            "id": "c1",
            "sessions": [
                {
                    "date": "2031-05-14T10:00:00Z",
                    "messages": [{"id": "a", "role": "user", "text": "I keep bees"}],
                }
            ],
            "labels": {
                "facts": [{"content": "bees", "match": ["oda", "bees"]}],
                "outdated": [{"content": "llama", "match": ["llama"], "unless": ["sold"]}],
                "never": [{"message": "a", "match": ["honey"], "why": "joke"}],
                "questions": [{"question": "What do I keep?", "answers": ["a"]}],
                "needs_memory": [{"text": "any smoker?", "evidence": ["a"]}],
            },
        }
    ],
}


def test_of_each_shape_what_stands_what_is_over_and_what_must_not_be_is_counted(tmp_path: Path) -> None:
    for name, made in (("plain.json", PLAIN), ("timed.json", TIMED)):
        (tmp_path / name).write_text(json.dumps(made))
    [plain], [timed] = read_chats(tmp_path / "plain.json"), read_chats(tmp_path / "timed.json")
    assert [turn.speaker for session in plain.sessions for turn in session] == [None, "Ivo", None]
    stored = {
        "oda": [
            Memory("Ivo has a llama.", [], True), Memory("The user keeps bees.", [], False),
            Memory("Oda has a kiln.", [], False), Memory("A unicorn.", [], True),
        ]
    }  # fmt: skip
    figures = _judged([plain], stored, show=False)
    assert list(figures.values()) == ["1 of 3 (0.333)", "3 of 4 (0.75)", "1 of 1", "1 of 1 (1.0)", 1]
    [[turn]] = timed.sessions
    assert len(timed.questions) == 2
    for text, said_in, expected in (
        ("Oda's bees make honey.", [turn.id], "1 of 1"),
        ("Oda's bees make honey.", [], "0 of 1"),
        ("Oda's llama is sold.", [turn.id], "0 of 1"),
    ):
        figures = _judged([timed], {"c1": [Memory(text, said_in, True)]}, show=False)
        assert figures["never, but stored"] == expected
        assert figures["outdated, ended or superseded"] == "1 of 1 (1.0)"


def ask(url: str, text: str) -> Any:
    request = {
        "model": "any",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": text}],
    }
    sent = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(request).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(sent, timeout=20) as reply:
        return json.loads(reply.read())


def test_what_was_recorded_is_played_without_a_server(tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    with OpenAIServer() as server:
        server.chat = lambda _: "spoken"
        for _ in range(2):
            with Recorder(
                file, play=False, upstream=server.base_url, key=None, timeout_seconds=20
            ) as recorder:
                assert ask(recorder.base_url, "hello")["choices"][0]["message"]["content"] == "spoken"
        assert len(server.requests) == 1  # the second time it was there
    with Recorder(file, play=True, upstream=None, key=None, timeout_seconds=20) as player:
        assert ask(player.base_url, "hello")["choices"][0]["message"]["content"] == "spoken"
        with pytest.raises(urllib.error.HTTPError):
            ask(player.base_url, "something else")
        assert (player.calls, player.missing) == (1, 1)
    with pytest.raises(SystemExit):
        Recorder(tmp_path / "none.json", play=True, upstream=None, key=None, timeout_seconds=20)
