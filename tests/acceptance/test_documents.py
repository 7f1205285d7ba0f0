"""What the documents say is what happens: the README's tour runs as written, every setting is described."""

from __future__ import annotations

import re
from pathlib import Path

import asyncpg

from daemon.migrator import migrate
from daemon.settings import PREFIX, Settings
from tests.support.daemons import DaemonProcess
from tests.support.waiting import IDLE, until

ROOT = Path(__file__).parents[2]


def sql_blocks(document: str) -> list[str]:
    """The statements of a document's SQL examples, in order."""
    blocks = re.findall(r"```sql\n(.*?)```", (ROOT / document).read_text("utf-8"), re.DOTALL)
    return [
        statement for block in blocks for statement in re.split(r";\s*(?=\n|$)", block) if statement.strip()
    ]


async def test_the_tour_of_the_readme_runs_as_written(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    answers: list[tuple[str, list[asyncpg.Record]]] = []
    for statement in sql_blocks("README.md"):
        answers.append((statement, await connection.fetch(statement)))
        await until(connection, IDLE)

    def answer(part: str) -> list[asyncpg.Record]:
        return next(rows for statement, rows in answers if part in statement)

    assert [r["status"] for r in answer("from claim_command")] == ["running"]
    assert [r["kind"] for r in answer("select kind, content")] == ["fact", "error"]
    (context,) = [r["context"] for r in answer("select context")]
    assert "registry refused the connection" in context
    assert "make registry-login" in context
    assert answer("from recall")
    assert answer("from memory_associations")
    assert await connection.fetchval("select category from dream_insights") == "correction"
    assert await connection.fetchval("select count(*) from memoryd.dead_jobs") == 0


async def test_the_examples_of_the_other_documents_run_as_written(connection: asyncpg.Connection) -> None:
    examples = {
        d.name: sql_blocks(f"docs/{d.name}")
        for d in (ROOT / "docs").glob("*.md")
        if d.name != "operations.md"
    }
    assert any(examples.values())
    for statements in examples.values():
        for statement in statements:
            await connection.execute(statement)


async def test_what_removes_memoryd_removes_all_of_it(connection: asyncpg.Connection) -> None:
    for statement in sql_blocks("docs/operations.md"):
        await connection.execute(statement)
    left = await connection.fetchval(
        "select count(*) from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'v')"
    )
    assert left == 0
    assert await migrate(connection, dimensions=256, embedder="local/wordllama-256")


def test_the_documents_link_to_what_is_there() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text("utf-8")):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"


def test_every_setting_is_described() -> None:
    for document in ("docs/settings.md", ".env.example"):
        text = (ROOT / document).read_text("utf-8")
        missing = [name for name in Settings.model_fields if PREFIX + name.upper() not in text]
        assert not missing, f"{document} lacks {missing}"
    assert all(field.description for field in Settings.model_fields.values())
