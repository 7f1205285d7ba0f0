"""The options of recall and of contexts are declared once, in memoryd.options(): whoever takes options takes these."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import asyncpg
import pytest
from memoryd_client._options import ContextOptions, RecallOptions

from daemon.cli.recall import context, recall
from daemon.db.migration_files import load_options
from docs import write_options
from plugins.mcp import arguments
from tests.support.rows import column

OF_RECALL = "select name from memoryd.options() where recall and not argument"
OF_CONTEXT = "select name from memoryd.options() where context"
NOT_OPTIONS = {"short", "query", "message", "count", "sources"}
ROOT = Path(__file__).parents[3]


def parameters(of: object) -> set[str]:
    """The names of what a function takes."""
    return set(inspect.signature(of).parameters)  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [OF_RECALL, OF_CONTEXT], ids=["recall", "context"])
async def test_the_comments_of_the_functions_name_the_options(
    connection: asyncpg.Connection, asked: str
) -> None:
    function = "recall" if asked == OF_RECALL else "build_context"
    told = await connection.fetchval("select obj_description($1::regproc)", function)
    assert re.search(r"options: (.*)\.$", told)[1].split(", ") == await column(connection, asked)  # type: ignore[index]


async def test_the_commands_the_tools_and_the_clients_have_each_option(
    connection: asyncpg.Connection,
) -> None:
    of_recall, of_context = (
        set(await column(connection, OF_RECALL)),
        set(await column(connection, OF_CONTEXT)),
    )
    assert set(arguments.Recall.model_fields) - NOT_OPTIONS == of_recall
    assert set(arguments.Context.model_fields) - NOT_OPTIONS == of_context
    assert of_recall <= parameters(recall)
    assert of_context <= parameters(context)
    assert set(RecallOptions.__annotations__) == of_recall
    assert set(ContextOptions.__annotations__) == of_context


async def test_the_table_is_read_as_the_database_has_it(connection: asyncpg.Connection) -> None:
    in_database = await connection.fetch(
        "select name, kind, lowest, highest, array_remove(array[case when recall then 'recall' end, "
        "case when context then 'context' end], null) as of, argument, in_prompt, help from memoryd.options()"
    )
    assert [astuple(option) for option in load_options()] == [
        (
            *row[:4],
            tuple(row["of"]),
            row["argument"],
            None if row["in_prompt"] is None else json.loads(row["in_prompt"]),
            row["help"],
        )
        for row in in_database
    ]


@pytest.mark.parametrize(
    ("file", "made"),
    [
        (write_options.PYTHON, write_options.in_python),
        (write_options.TYPESCRIPT, write_options.in_typescript),
    ],
)
def test_the_clients_have_the_options_of_the_table(file: Path, made: Callable[[], str]) -> None:
    assert file.read_text("utf-8") == made(), "Run: python -m docs.write_options"


async def test_the_document_names_each_option(connection: asyncpg.Connection) -> None:
    table = (ROOT / "docs/chatbot.md").read_text().partition("## Options")[2].partition("\n\nAn option")[0]
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert named == set(await column(connection, OF_RECALL))
