"""The example of docs/documents.md: a client, employees and an admin find what it says that they find."""

from __future__ import annotations

import re

import asyncpg

from tests.support.processes.daemons import DaemonProcess
from tests.support.repository import ROOT
from tests.support.rows import column
from tests.support.waiting import IDLE, until


async def test_each_role_finds_what_the_document_says(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    text = (ROOT / "docs" / "documents.md").read_text("utf-8").partition("## Who may read them")[2]
    (example,) = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    written, _, asked = example.partition("set local role")
    await connection.execute(written)
    await until(connection, IDLE)
    said: list[list[str]] = []
    async with connection.transaction():
        for statement in f"set local role{asked}".split(";\n"):
            if "recall" in statement:
                found = await column(connection, statement)
                said.append(re.findall(r"-- the \w+ finds (.*)", statement)[0].split("; "))
                assert sorted(map(str, found)) == said[-1]
            elif statement.strip():
                await connection.execute(statement)
    assert len(said) == 4
