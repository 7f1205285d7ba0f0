"""The examples of docs/knowledge.md give what it says that they give."""

from __future__ import annotations

import re

import asyncpg

from tests.support.repository import ROOT


async def test_each_example_gives_what_the_document_says(scratch: asyncpg.Connection) -> None:
    text = (ROOT / "docs" / "knowledge.md").read_text("utf-8")
    examples = [
        found
        for block in re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
        for found in re.findall(r"(.*?);\n-- gives: (.*?)\n", block, re.DOTALL)
    ]
    assert len(examples) == 8
    for statement, said in examples:
        # Those that follow each other here are hours apart in life.
        await scratch.execute("update shared_knowledge set created_at = created_at - interval '1 hour'")
        assert str(await scratch.fetchval(statement)) == said, statement
