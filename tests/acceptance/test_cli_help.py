"""What the command line says when it is asked, or asked wrongly."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import typer
from typer.testing import CliRunner

from daemon.cli.app import PANELS, REMOVED, app
from daemon.ids import id_of
from daemon.plugins import PANEL
from tests.support.processes.commands import Commands

COMMANDS = {
    "run": "SIGTERM",
    "demo": "real commands",
    "status": "--json",
    "doctor": "Exit code 1",
    "health": "--live",
    "recall": "--source",
    "context": "The task",
    "dream": "Dream once",
    "migrate": "--dry-run",
    "adopt": "--also",
    "reembed": "--undo",
    "url": "--tcp",
    "psql": "DATABASE_URL",
    "dead": "requeue",
    "eval": "--at-least",
    "know": "seed",
    "mcp": "--http",
    "audit": "--apply",
    "secrets": "reencrypt",
    "replica": "conflicts",
    "export": "--output",
    "import": "--user",
    "erase": "--yes",
}
NOWHERE = "postgresql://nobody:secret@127.0.0.1:1/none"


async def test_help_lists_every_command(tmp_path: Path) -> None:
    shown = await Commands(None, tmp_path)("--help")
    assert shown.code == 0
    assert [name for name in COMMANDS if f" {name} " not in shown.out] == []


@pytest.mark.parametrize("command", COMMANDS)
async def test_every_command_explains_itself(command: str, tmp_path: Path) -> None:
    shown = await Commands(None, tmp_path)(command, "--help")
    assert shown.code == 0
    assert "Usage: " in shown.out
    assert COMMANDS[command] in shown.out


async def test_requeue_explains_itself(tmp_path: Path) -> None:
    shown = await Commands(None, tmp_path)("dead", "requeue", "--help")
    assert shown.code == 0
    assert "--all" in shown.out
    assert "--topic" in shown.out


async def test_the_help_groups_commands_by_who_needs_them(tmp_path: Path) -> None:
    shown = await Commands(None, tmp_path)("--help")
    listed = [line.split()[1] for line in shown.out.splitlines() if re.match(r"│ [a-z]", line)]
    assert [line.split("─")[1].strip() for line in shown.out.splitlines() if line.startswith("╭")] == [
        "Options",
        *(panel for panel in PANELS if panel != PANEL),
    ]
    assert sorted(listed) == sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("gone", "instead"), REMOVED.items())
async def test_a_command_that_is_gone_says_what_does_it_now(gone: str, instead: str, tmp_path: Path) -> None:
    memoryd = Commands(None, tmp_path)
    ended = await memoryd(gone, "--json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.sentences == [f"There is no command {gone} any more. Instead: {instead}"]
    assert (await memoryd(*instead.split()[1:], "--help")).code == 0


async def test_a_setting_that_is_gone_is_told_and_stops_nothing(tmp_path: Path) -> None:
    ended = await Commands(NOWHERE, tmp_path)("url", audit="maybe", poll_seconds=1)
    assert (ended.code, ended.out.strip()) == (0, NOWHERE)
    [told] = map(json.loads, ended.err.splitlines())
    assert (told["event"], told["level"], told["variable"]) == ("setting_gone", "warning", "MEMORYD_AUDIT")
    assert "MEMORYD_AUDIT_DAYS=0" in told["now"]


async def test_the_printed_version_is_the_packages(tmp_path: Path) -> None:
    shown = await Commands(None, tmp_path)("--version")
    assert (shown.code, shown.out) == (0, f"memoryd {metadata.version('memoryd')}\n")


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that can be called, groups that do something by themselves too, with its place."""
    below = getattr(command, "commands", {})
    if not below or command.invoke_without_command:
        yield path, command
    for name, each in below.items():
        yield from leaves(each, (*path, name))


# What is asked for by one of several options is no required parameter.
CHOOSE_ONE = {("verify",), ("reembed",), ("dead", "requeue"), ("erase",)}
# A digit is missing: as a name it would be the id of somebody else.
ALMOST = "00000000-0000-0000-0000-00000000a11"
# What a command needs beside what is wrong, and what is wrong.
WRONG = [
    ("verify", "--ledgers"),
    ("verify", "--all", "--key", "nonsense"),
    ("reembed", "local/wordllama-256", "--undo"),
    ("reembed", "magic/8ball"),
    ("dead", "requeue", "7", "--all"),
    ("recall", "deploy", "--exclude-last", "3"),
    ("context", "alice", "deploy", "--exclude-last", "3"),
    ("context", "alice", "deploy", "--project", " "),
    ("replica", "conflicts", "--keep", "mine"),
    ("replica", "--confirm-deletions", "--rewrite"),
    ("erase", "00000000-0000-0000-0000-000000000001"),
    ("erase", ALMOST, "--yes"),
    ("export", ALMOST),
    ("recall", "deploy", "--user", ALMOST),
    ("know", "decisions", "--org", ""),
    ("mcp", "--agent", "alice", "--user", "mia\udc80"),
    ("replica", "undelete", "mia"),
    ("prove", "mia"),
    ("know", "show", "mia"),
    ("replica", "conflicts", "--keep", "mine", "mia"),
    ("mcp", "--agent", " "),
    ("secrets", "encrypt", "9 lives"),
    ("forget",),
]


def calls() -> Iterator[tuple[str, ...]]:
    """Of every command a call that is wrong: without what it needs, or with an option that it does not have."""
    for path, command in leaves(typer.main.get_command(app)):
        if any(each.required for each in command.params) or path in CHOOSE_ONE:
            yield path
        elif path != ("psql",):  # its options are psql's own
            yield (*path, "--nonsense")
    yield from WRONG


@pytest.mark.parametrize("call", list(calls()), ids=" ".join)
def test_a_call_that_is_wrong_ends_with_2_before_anything_is_done(call: tuple[str, ...]) -> None:
    ended = CliRunner(env={"DATABASE_URL": NOWHERE}).invoke(app, call)
    assert (ended.exit_code, ended.stdout) == (2, ""), ended.output
    assert ended.stderr
    assert "cannot be reached" not in ended.stderr


def test_what_a_person_names_has_a_name_and_rows_have_ids() -> None:
    for path, command in leaves(typer.main.get_command(app)):
        for each in command.params:
            if each.name in {"user", "org", "exclude_session"}:
                read = partial(each.process_value, typer.Context(command))
                assert (read("mia"), read(ALMOST + "c")) == (id_of("mia"), UUID(ALMOST + "c")), (
                    path,
                    each.name,
                )
            else:
                assert each.name not in {"user_id", "org_id", "session", "session_id"}, path


async def test_the_exit_codes_are_told(tmp_path: Path) -> None:
    shown = await Commands(None, tmp_path)("--help")
    for code in ("0:", "1:", "2:", "3:", "130:"):
        assert code in shown.out


@pytest.mark.parametrize("command", [["run"], ["status"], ["doctor"], ["url"], ["import", "-"]])
async def test_a_wrong_setting_ends_every_command_with_its_sentence(
    command: list[str], tmp_path: Path
) -> None:
    ended = await Commands(None, tmp_path)(*command, pool_size=1)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    (sentence,) = ended.sentences  # of `run` it is an event of the log
    assert sentence.startswith("MEMORYD_POOL_SIZE is '1'")


@pytest.mark.parametrize(
    "command",
    [["status"], ["dead"], ["dream"], ["context", "alice", "deploy"], ["recall", "deploy"], ["migrate"]],
)
async def test_an_unreachable_database_is_reported_in_one_sentence(
    command: list[str], tmp_path: Path
) -> None:
    ended = await Commands(NOWHERE, tmp_path)(*command)
    assert ended.code == 1
    assert ended.err.count("\n") == 1
    assert "cannot be reached" in ended.err
    assert "DATABASE_URL" in ended.err
    assert "secret" not in ended.err


async def test_a_database_without_the_schema_says_what_to_run(empty_url: str, tmp_path: Path) -> None:
    ended = await Commands(empty_url, tmp_path)("status")
    assert ended.code == 1
    assert "memoryd migrate" in ended.err


def files(folder: Path) -> list[Path]:
    """All that is in a folder."""
    return list(folder.rglob("*"))


@pytest.mark.parametrize(
    "command", [["status"], ["doctor"], ["dead"], ["recall", "deploy"], ["url"], ["psql"]]
)
async def test_reading_commands_create_no_database(command: list[str], tmp_path: Path) -> None:
    ended = await Commands(None, tmp_path)(*command)
    assert ended.code == 1
    assert "make run" in ended.err + ended.out
    assert not any(files(tmp_path))


async def test_a_closed_pipe_prints_no_error(memoryd: Commands) -> None:
    read, write = os.pipe()
    os.close(read)  # as `| head -0` does
    process = await memoryd.start("status", stdout=write)
    os.close(write)
    assert process.stderr is not None
    assert await process.stderr.read() == b""
    assert await process.wait() != 0


def test_ctrl_c_while_memoryd_is_loaded_shows_no_traceback() -> None:
    code = """
import signal, sys
# Who runs the tests may have it ignored, as a shell does for what it starts in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupted:
    def find_spec(self, name, path, target=None):
        if name == "daemon.cli.app":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupted())
from daemon.__main__ import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
