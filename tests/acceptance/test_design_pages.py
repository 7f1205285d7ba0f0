"""The pages in docs/from/: each example runs as it stands there, beside a daemon, and gives what the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.support.processes.daemons import Daemons
from tests.support.repository import ROOT
from tests.support.waiting import IDLE, until

PAGES = sorted((ROOT / "docs/from").glob("*.md"))
STATEMENT = re.compile(r"(?P<sql>.+?);[ \t]*\n(?:-- (?P<how>gives|refused): (?P<said>[^\n]*)\n)?", re.DOTALL)
EXAMPLES = 15
"""A page has at least as many results to compare."""


def examples(page: Path) -> Iterator[tuple[str, str | None, str]]:
    """The statements of a page in order, each with what it says of it: gives or refused, and what."""
    for block in re.findall(r"```sql\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        at = 0
        for found in STATEMENT.finditer(block):
            yield found["sql"].strip(), found["how"], found["said"] or ""
            at = found.end()
        assert not block[at:].strip(), f"{page.name}: this ends without a semicolon: {block[at:]}"


def shown(value: object) -> str:
    """A value as the pages write it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def result_of(rows: list[asyncpg.Record]) -> str:
    """Rows as the pages write them: columns between bars, rows between semicolons."""
    return "; ".join(" | ".join(map(shown, row)) for row in rows) or "nothing"


async def answer_to(connection: asyncpg.Connection, sql: str) -> str:
    """What a statement gives, or how it is refused; a transaction that it stands in goes on."""
    inside = connection.is_in_transaction() and sql != "commit"
    if inside:
        await connection.execute("savepoint before")
    try:
        rows = await connection.fetch(sql)
    except asyncpg.PostgresError as error:
        if inside:
            await connection.execute("rollback to savepoint before")
        return f"refused: {error.sqlstate} {error.args[0]}"
    return result_of(rows)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.usefixtures("tokens")
async def test_each_example_gives_what_the_page_says(
    page: Path, connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await daemons.start()
    compared = 0
    wrong: list[str] = []
    for sql, how, said in examples(page):
        found = await answer_to(connection, sql)
        fits = found.startswith(f"refused: {said}") if how == "refused" else found == said
        if how is None:
            fits = not found.startswith("refused: ")
        compared += how is not None
        if not fits:
            wrong.append(f"{sql}\n    the page says: {said}\n    it gives:      {found}")
        if not connection.is_in_transaction():
            await until(connection, IDLE)
    assert not wrong, "\n\n".join(wrong)
    assert compared >= EXAMPLES
