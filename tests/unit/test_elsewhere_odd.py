"""Records of strangers that have another form than their system gives them: counted, said, and never the end of an import."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.ids import id_of
from plugins.move_in.importers.child import _frames, item_of
from plugins.move_in.importers.items import System
from plugins.move_in.importers.sources import items_of
from plugins.move_in.importers.spool import TABLES, Spool
from tests.support.repository import ROOT

DATA = ROOT / "tests/data/elsewhere"
DEEP = '{"a": ' * 10_000 + "1" + "}" * 10_000
ODD: tuple[Any, ...] = ([1, [2]], {"a": [None]}, 7, float("nan"))
FILES = sorted(path for path in DATA.iterdir() if path.suffix != ".md")
COMMANDS = [
    {
        "agent_id": "a",
        "message": f"m{n}",
        "created_at": "2025-03-01T10:00:00Z",
        "session_id": "s",
        "metadata": {"a": 1},
    }
    for n in range(3)
]


def spooled(system: str, content: bytes | Path) -> tuple[int, int]:
    """How many rows a file gives, and how many records are left out of it."""
    spool = Spool(system, user=None if system == "commands" else id_of("mia"), agent=None)
    for _, lines in _frames(items_of(System(system), "x", "2025-03-01", content)):
        for line in filter(None, lines.split(b"\n")):
            spool.add(item_of(line))
    rows = sum(len(json.loads(batch)) for table in TABLES for batch in spool.batches(table))
    spool.close()
    return rows, sum(spool.left_out.values())


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a record, however deep."""
    yield path
    for key, inside in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from places(inside, (*path, key))


@pytest.mark.parametrize("system", [*(path.stem for path in FILES), "commands"])
def test_whatever_stands_at_any_place_of_a_record_the_others_are_taken(system: str) -> None:
    text = json.dumps(COMMANDS) if system == "commands" else next(DATA.glob(f"{system}.*")).read_text()
    given = [json.loads(line) for line in text.splitlines()] if system == "langmem" else json.loads(text)
    whole, _ = spooled(system, json.dumps(given).encode())
    for path in list(places(given))[1:]:
        *above, last = path
        at = given
        for key in above:
            at = at[key]
        before = at[last]
        for odd in ODD:
            at[last] = odd
            rows, left_out = spooled(system, json.dumps(given).encode())
            # Without its id a conversation is not taken, nor is what it says.
            if not isinstance(before, (dict, list)) and last not in ("uuid", "thread_id"):
                assert rows >= whole - 1, (path, odd)
                assert rows + left_out >= whole, (path, odd)
        at[last] = before


@pytest.mark.parametrize("odd", [DEEP, f"[{DEEP}]", "9" * 5000, "-1e999", "NaN"], ids=lambda odd: odd[:9])
@pytest.mark.parametrize(
    "form", ["[RECORDS]", '{"results": [RECORDS]}', "RECORDS"], ids=["array", "object", "lines"]
)
def test_what_json_itself_hardly_reads_is_counted_and_the_rest_read(form: str, odd: str) -> None:
    good = [json.dumps({"id": f"{n}", "memory": f"said {n}"}) for n in range(3)]
    bad = f'{{"id": "odd", "memory": {odd}, "metadata": {{"of": "]}}\\""}}}}'
    given = form.replace("RECORDS", ("\n" if form == "RECORDS" else ",").join([good[0], bad, *good[1:]]))
    assert spooled("mem0", given.encode()) == (3, 1)
