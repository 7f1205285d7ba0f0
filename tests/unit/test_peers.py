"""The arithmetic of the comparison with other memories (benchmarks.peers)."""

from __future__ import annotations

import base64
import json
import struct
import uuid
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.__main__ import table
from benchmarks.peers.embeddings import answer
from benchmarks.peers.environments import size_of
from benchmarks.peers.measure import BATCH, Answer, Tally, make_texts


def test_peers_get_the_speaker_in_the_text_and_memoryd_gets_columns() -> None:
    turns = [
        {"id": n, "session": 1, "speaker": "Ada", "time": "2026-01-02T03:04:05Z", "text": f"said {n}"}
        for n in range(BATCH + 1)
    ]
    questions = [{"question": "What?", "evidence": [BATCH], "category": 1}]
    body, batches = make_texts({"turns": turns, "questions": questions})
    assert [len(batch) for batch in batches] == [BATCH, 1]
    (last,) = batches[1]
    assert (last.text, last.user, last.memory) == (f"Ada: said {BATCH}", str(body.user), False)
    assert last.row[5:7] == ("Ada", f"said {BATCH}")
    assert body.questions[0].evidence == {uuid.UUID(last.id)}


def test_a_memory_has_no_speaker() -> None:
    turns = [{"id": 1, "session": None, "speaker": None, "time": None, "text": "a note"}]
    _, ((note,),) = make_texts({"turns": turns, "questions": []})
    assert (note.text, note.memory, note.time) == ("a note", True, None)


def test_recall_counts_the_evidence_and_precision_what_comes() -> None:
    right, missed, wrong = uuid.uuid4(), uuid.uuid4(), str(uuid.uuid4())
    tally = Tally()
    tally.add("a", Answer([str(right), wrong, wrong[::-1], wrong[1:]], 0.010), frozenset({right, missed}))
    tally.add("b", Answer([], 0.030), frozenset({right}))
    tally.add_foreign(Answer([], 0.0))
    tally.add_foreign(Answer([wrong], 0.0))
    figures = tally.figures()
    assert (figures["recall@10 a"], figures["recall@10 b"]) == (0.5, 0.0)
    assert figures["precision"] == 0.25, "an answer of nothing counts in recall, not in precision"
    assert figures["silent"] == 0.5
    assert figures["p50_ms"] == pytest.approx(20)


def test_what_comes_after_the_tenth_does_not_count() -> None:
    right = uuid.uuid4()
    tally = Tally()
    for _ in range(2):
        tally.add("a", Answer([*map(str, range(10)), str(right)], 0.01), frozenset({right}))
    tally.add_foreign(Answer(["1"], 0.0))
    assert tally.figures()["recall@10 a"] == 0.0


def test_a_peer_that_could_not_run_stays_in_the_table() -> None:
    head, rows = table(
        [
            {"system": "one", "rows_s": 1234, "recall@10 a": 0.5, "p50_ms": 12.3},
            {"system": "two", "packages": 7, "failed": "no server"},
        ],
        ["a"],
    )
    first, second = (dict(zip(head[1:], values, strict=True)) for _, values in rows)
    assert (first["rows a second"], first["recall@10 a"], first["p50, ms"]) == ("1,234", "0.500", "12.3")
    assert rows[1][0] == "two: not measured, no server"
    assert (second["packages"], second["rows a second"]) == ("7", "")


def test_the_size_is_of_what_the_packages_bring(tmp_path: Path) -> None:
    for name in ("peer/a.py", "peer/__pycache__/a.pyc", "pip/b.py", "setuptools-1.dist-info/c", "pipes.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"1234567890")
    (tmp_path / "again").hardlink_to(tmp_path / "pipes.py")
    assert size_of(tmp_path.rglob("*")) == 20


def test_embeddings_come_as_numbers_or_packed() -> None:
    vectors = np.array([[0.5, -1.0]], dtype=np.float32)
    plain = json.loads(json.dumps(answer(vectors, {"model": "m"})))
    assert plain["data"] == [{"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}]
    packed = json.loads(json.dumps(answer(vectors, {"encoding_format": "base64"})))
    assert struct.unpack("<2f", base64.b64decode(packed["data"][0]["embedding"])) == (0.5, -1.0)
