"""memoryd know and memoryd know decisions: notes from sentences and files, read again, and the decisions that need a look."""

from __future__ import annotations

import json
from pathlib import Path

import asyncpg

from tests.support.processes.commands import Commands

NOTES = """# Key lessons

What we learned so far, in short.

## Principles

- **Quality before speed**: Rush to understand, not to ship.
- Every number in a report names
  the query that gives it.

## Clients

Acme pays its invoices after 60 days.

```sh
# this is no heading
```
"""


async def test_what_is_known_is_noted_listed_and_shown(
    connection: asyncpg.Connection, memoryd: Commands, tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "lessons.md").write_text(NOTES, "utf-8")
    objects = [
        {"content": "The board meets on Mondays.", "category": "team", "tags": ["board"]},
        {
            "content": "Move the office in March.",
            "category": "decision",
            "decision_context": {"review_by": "2020-01-01"},
        },
        {"content": "password: hunter2hunter2"},
    ]
    (tmp_path / "notes" / "more.json").write_text(json.dumps(objects), "utf-8")
    (tmp_path / "notes" / "bad.jsonl").write_text('{"contents": "a"}\n', "utf-8")
    (tmp_path / "notes" / "cut.json").write_bytes(b"\xff{")
    (tmp_path / "notes" / "nul.md").write_bytes(b"# Tides\n\nHigh at\x00 noon.\n")
    (tmp_path / "notes" / "nul.json").write_text(
        json.dumps([{"content": "C:\\u0000 is a path."}, {"content": "a\x00b"}]), "utf-8"
    )
    first = await memoryd("know", "seed", "notes", "--by", "bridget", "--category", "principle", "--json")
    assert first.code == 1
    told = json.loads(first.out)
    assert told["counts"] == {"stored": 6, "refused": 5}
    by_file = {each["path"].rsplit("/", 1)[-1]: each["reason"] for each in told["refused"]}
    assert "line 3 has a NUL character" in by_file["nul.md"]
    assert "note 2 has a NUL character" in by_file["nul.json"]
    assert "Remove it" in by_file["nul.md"]
    reasons = " ".join(each["reason"] for each in told["refused"])
    for said in ("unknown key 'contents'", "not in UTF-8", "a password or key"):
        assert said in reasons
    assert "hunter2" not in first.out
    before = await connection.fetch("select * from shared_knowledge order by id")
    again = await memoryd("know", "seed", "notes", "--by", "bridget", "--category", "principle")
    assert "known" in again.out
    assert await connection.fetch("select * from shared_knowledge order by id") == before
    by_title = {r["title"]: r for r in before}
    assert by_title["Quality before speed"]["content"] == "Rush to understand, not to ship."
    assert by_title["Quality before speed"]["tier"] == "core"
    assert "Every number in a report names" in by_title
    assert "# this is no heading" in by_title["Clients"]["content"]

    added = await memoryd(
        "know", "add", "Sell the boat.", "--by", "sam", "--category", "decision", "--kill", "It is winter"
    )
    assert added.code == 0
    assert added.out.startswith("Stored ")
    repeated = await memoryd(
        "know", "add", "Sell the boat.", "--by", "sam", "--category", "decision", "--json"
    )
    assert json.loads(repeated.out)["what"] == "strengthened"
    which = json.loads(repeated.out)["id"]
    shown = json.loads((await memoryd("know", "show", which)).out)
    assert (shown["said_again"], shown["decision_context"]) == (1, {"kill_criteria": ["It is winter"]})
    gone = await memoryd("know", "show", "00000000-0000-0000-0000-000000000001")
    assert (gone.code, "memoryd know list" in gone.err) == (1, True)
    listed = json.loads((await memoryd("know", "list", "--tier", "core", "--json")).out)
    assert {each["category"] for each in listed} == {"principle", "team"}

    open_ones = json.loads((await memoryd("know", "decisions", "--json")).out)
    assert [(d["title"], d["state"]) for d in open_ones["decisions"]] == [
        ("Move the office in March.", "overdue"),
        ("Sell the boat.", "open"),
    ]
    assert "No decision is open that matches." in (await memoryd("know", "decisions", "--tag", "ship")).out
    assert "Nothing that is known matches." in (await memoryd("know", "list", "--tag", "ship")).out
    ended = await memoryd(
        "know",
        "add",
        "The boat is sold.",
        "--by",
        "sam",
        "--category",
        "outcome",
        "--success",
        "--related",
        which,
    )
    assert "scored the decision" in ended.out + ended.err
    table = await memoryd("know", "decisions", "--all")
    assert "succeeded" in table.out
    assert "1 of 1 (100%)" in table.out


async def test_an_organisations_notes_are_its_own(connection: asyncpg.Connection, memoryd: Commands) -> None:
    org = "00000000-0000-0000-0000-00000000000a"
    assert (await memoryd("know", "add", "Walruses sing.", "--by", "sam", "--org", org)).code == 0
    assert "Nothing is known yet" in (await memoryd("know", "list")).out
    assert "Walruses sing." in (await memoryd("know", "list", "--org", org)).out
    assert str(await connection.fetchval("select org_id from shared_knowledge")) == org
