"""The options of recall and of contexts are declared once, in memoryd.options(): whoever takes options takes these."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import asyncpg
import pytest
from memoryd_client import Memory

from daemon.cli.memories.context import context
from daemon.cli.memories.recall import recall
from daemon.mcp.arguments import ContextOptions, RecallOptions
from tests.support.rows import column

OF_RECALL = "select name from memoryd.options() where recall and not argument"
OF_CONTEXT = "select name from memoryd.options() where context"
NOT_OPTIONS = {"query", "count", "sources", "filter", "self"}
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
    assert set(RecallOptions.model_fields) == of_recall
    assert set(ContextOptions.model_fields) == of_context
    assert parameters(Memory.recall) - NOT_OPTIONS == of_recall
    # A command's option that may be given several times has the name of one.
    of_command = {name.rstrip("s") for name in parameters(recall)}
    assert {str(name).rstrip("s") for name in of_recall} <= of_command
    assert of_context <= parameters(context)


async def test_the_client_for_the_browser_and_the_document_name_each_option(
    connection: asyncpg.Connection,
) -> None:
    of_recall = await column(connection, "select name from memoryd.options() where recall")
    typed = (ROOT / "clients/typescript/src/options.ts").read_text()
    interface = typed.partition("interface RecallOptions")[2].partition("\n}")[0]
    camel = re.findall(r"^  (\w+)\?:", interface, re.MULTILINE)
    in_sql = {
        "match_count" if name == "count" else re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name)
        for name in camel
    }
    assert in_sql == set(map(str, of_recall))
    table = (ROOT / "docs/chatbot.md").read_text().partition("## Options")[2].partition("\n\nAn option")[0]
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert named == set(await column(connection, OF_RECALL))
