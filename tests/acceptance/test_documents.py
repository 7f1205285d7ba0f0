"""What the documents say is what happens: the README's tour runs as written, every setting is described."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shlex
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import asyncpg
from typer.core import TyperGroup
from typer.main import get_command

from daemon.cli.app import REMOVED, app
from daemon.db.migrator import migrate
from daemon.settings import PREFIX, all_settings
from plugins.trail.settings import LEDGERS
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied, make_once
from tests.support.database.tokens import put_tokens_in
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import DaemonProcess
from tests.support.repository import ROOT

GROUPS = {("audit",), ("anchors",), ("dead",), ("hooks",), ("know",), ("replica",), ("secrets",)}
"""Commands that have subcommands."""
LEVELS = frozenset({"debug", "info", "warning", "error", "critical"})


def sql_blocks(document: str) -> list[str]:
    """The statements of a document's SQL examples, in order."""
    return [statement for block in pasted_blocks(document) for statement in block]


def pasted_blocks(document: str) -> list[list[str]]:
    """The same, of each example by itself."""
    blocks = re.findall(r"```sql\n(.*?)```", (ROOT / document).read_text("utf-8"), re.DOTALL)
    return [
        [part for part in re.split(r";\s*(?=\n|$)", block) if re.sub(r"--.*", "", part).strip()]
        for block in blocks
    ]


async def test_the_readme_runs_in_one_paste(
    connection: asyncpg.Connection, tokens: None, database_url: str, daemon: DaemonProcess, tmp_path: Path
) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    pasted = "\n".join(re.findall(r"```sql\n(.*?)```", readme, re.DOTALL))
    psql = await Commands(database_url, tmp_path)("psql", "--no-psqlrc", "--quiet", stdin=pasted.encode())
    assert (psql.code, psql.err) == (0, "")
    # Whoever follows the page sees what it shows.
    assert contexts_of(psql.out) == contexts_of(readme)

    for expected in (
        "running", "error +| Task: deploy the staging server", "sequential +|", "memory +| Task: deploy", "correction +|",
        "conversation +| My sister Anna", "knowledge +| Tag first",
    ):  # fmt: skip
        assert re.search(expected.replace("|", r"\|"), psql.out), expected
    assert not re.search(r"wait_until_idle\s+-+\s+f", psql.out)
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0


def contexts_of(text: str) -> list[str]:
    """The contexts that a text shows, with what differs each time left out: their codes and the times of memories."""
    shown = re.finditer(r"^--- CONTEXT (\w+) .*?^--- END CONTEXT \1 ---$", text, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d|{one[1]}", "*", one[0]) for one in shown]


async def test_the_examples_of_the_other_documents_run_as_written(connection: asyncpg.Connection) -> None:
    examples = {
        d.name: sql_blocks(str(d.relative_to(ROOT)))
        for d in (ROOT / "docs").rglob("*.md")
        # Those about other designs have tests/acceptance/test_design_pages.py, those of adding.md test_added_source.py.
        if d.name not in {"adding.md", "operations.md"} and d.parent.name != "from"
    }
    assert any(examples.values())
    # Undone at the end: a login that an example makes belongs to the whole server.
    undone = connection.transaction()
    await undone.start()
    for statements in examples.values():
        for statement in statements:
            await connection.execute(statement)
    await undone.rollback()


GONE = rf"### Removed\n.*?(?=\n##)|`memoryd (?:{'|'.join(REMOVED)})\b[^`]*`"


def documented() -> set[tuple[str, ...]]:
    """The command lines that the documents name, in words. CHANGELOG.md names commands that are gone, too."""
    texts = [
        re.sub(GONE, "", d.read_text("utf-8"), flags=re.DOTALL)
        if d.name == "CHANGELOG.md"
        else d.read_text("utf-8")
        for d in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    ]
    lines = [line for text in texts for line in re.findall(r"`([^`\n]+)`", text)]
    lines += [
        line.partition(" #")[0]
        for text in texts
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
    ]
    named = (
        re.fullmatch(r"(?:[A-Z_]+=\S* |[A-Z_]+='[^']*' )*((?:memoryd|make|python -m) .*?) *", line)
        for line in lines
    )
    return {tuple(shlex.split(found[1])) for found in named if found}


def options_of(help_text: str) -> set[str]:
    """The options that a module's help names, in full: `--user` is not `--users`."""
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", help_text))


def options_of_command(words: tuple[str, ...]) -> set[str]:
    """The options that a command of memoryd takes."""
    command = get_command(app)
    for word in words:
        assert isinstance(command, TyperGroup), words
        command = command.commands[word]
    return {"--help"} | {option for each in command.params for option in (*each.opts, *each.secondary_opts)}


HELP_OF_MODULES = """
import contextlib, io, json, runpy, sys
helps = []
for module in sys.argv[1:]:
    sys.argv = [module, "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            assert not end.code, module
    helps.append(said.getvalue())
print(json.dumps(helps))
"""
"""In one process: that of each would import the same."""


async def test_commands_and_options_in_the_documents_exist() -> None:
    """Targets, subcommands, modules and options."""
    lines = documented()
    targets = {line[1] for line in lines if line[0] == "make"}
    assert {"run", "test", "demo"} <= targets
    assert targets <= set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

    for line in sorted(line for line in lines if line[0] == "memoryd"):
        if line[1:2] == ("--database",):
            line = (line[0], *line[3:])  # noqa: PLW2901 - which database is said before the command
        words = tuple(takewhile(lambda word: re.fullmatch("[a-z]+", word), line[1:3]))
        # Only after these a second word is a subcommand; elsewhere it is an argument.
        command = words[: 2 if words[:1] in GROUPS else 1]
        assert {word for word in line if word.startswith("-") and word != "-"} <= options_of_command(
            command
        ), line

    modules = sorted({line[2] for line in lines if line[0] == "python"})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HELP_OF_MODULES, *modules, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    for module, shown in zip(modules, json.loads(said), strict=True):
        named = {word for line in lines if line[2:3] == (module,) for word in line if word.startswith("--")}
        assert named <= options_of(shown), module


async def test_the_documented_removal_removes_everything(server: Server, template: str) -> None:
    await make_once(server, f"{template}_tokens", put_tokens_in, source=template)
    async with copied(server, f"{template}_tokens") as url, connected(url) as connection:
        for statement in sql_blocks("docs/operations.md"):
            await connection.execute(statement)
        left = await connection.fetchval(
            "select count(*) from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'v')"
        )
        assert left == 0
        assert await migrate(connection, dimensions=256, embedder="local/wordllama-256")


def places_of(document: Path) -> set[str]:
    """Where links into a document may lead: its headings, as GitHub makes anchors of them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text("utf-8"), re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_of_the_documents_lead_to_existing_files() -> None:
    followed = 0
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "clients").glob("*/README.md"),
        ROOT / "examples/README.md",
    ]
    for document in pages:
        for link, place in re.findall(r"\]\(([^)#:]*)(#[^)]+)?\)", document.read_text("utf-8")):
            followed += 1
            target = document.parent / link if link else document
            assert target.exists(), f"{document.name} links to {link}"
            if place:
                assert place in places_of(target), f"{document.name} links to {link}{place}"
    assert followed > 10


def test_names_that_the_page_of_the_architecture_looks_up_stand_in_their_files() -> None:
    page = ROOT / "docs/architecture.md"
    rows = re.findall(r"^\|.*\| `(.+)` \| \[.*\]\((.+)\) \|$", page.read_text("utf-8"), re.MULTILINE)
    assert len(rows) > 10
    assert [
        name
        for name, file in rows
        if not re.search(rf"\b{re.escape(name)}\b", (page.parent / file).read_text("utf-8"))
    ] == []


def logged_events() -> dict[str, str]:
    """Every event that the program logs, with a place where it does."""
    found: dict[str, str] = {}
    for package in ("daemon", "handlers", "memory", "plugins", "providers"):
        for path in (ROOT / package).rglob("*.py"):
            for call in ast.walk(ast.parse(path.read_text("utf-8"))):
                if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args):
                    continue
                logger = ast.unparse(call.func.value).rpartition(".")[2]
                if call.func.attr not in LEVELS | {"log"} or logger not in (
                    "_log",
                    "log",
                    "logger",
                    "get_logger()",
                ):
                    continue
                event = call.args[call.func.attr == "log"]
                assert isinstance(event, ast.Constant), f"{path}:{call.lineno} puts its event together"
                found[str(event.value)] = f"{path.name}:{call.lineno}"
    return found


def test_log_events_and_their_descriptions_correspond() -> None:
    # The names of metrics, which have tables of their own, begin with memoryd_.
    row = r"^\| (`(?!memoryd_)\w+`(?:, `\w+`)*) \| "
    table = re.findall(row, (ROOT / "docs/monitoring.md").read_text("utf-8"), re.MULTILINE)
    described = [name for cell in table for name in re.findall(r"`(\w+)`", cell)]
    assert len(described) == len(set(described))
    logged = logged_events()
    assert {name: at for name, at in logged.items() if name not in described} == {}
    assert set(described) - logged.keys() == set()


def test_every_setting_is_described() -> None:
    settings = sorted(PREFIX + name.upper() for name in all_settings().model_fields)
    rows = re.findall(r"^\| `(MEMORYD_\w+)`", (ROOT / "docs/settings.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(set(rows)) == settings
    lines = re.findall(r"^# (MEMORYD_\w+)=", (ROOT / ".env.example").read_text("utf-8"), re.MULTILINE)
    assert sorted(lines) == settings
    assert all(field.description for field in all_settings().model_fields.values())


NAMED = """
with relations as (
    select c.oid, case c.relnamespace when 'memoryd'::regnamespace then 'memoryd.' else '' end || c.relname as name
    from pg_class c where c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
)
select name from relations
union select 'memoryd.' || p.proname from pg_proc p where p.pronamespace = 'memoryd'::regnamespace
union select unnest(p.proargnames) from pg_proc p where p.pronamespace = 'public'::regnamespace
union select a.attname from pg_attribute a join relations r on r.oid = a.attrelid where a.attnum > 0
union select r.name || '.' || a.attname from pg_attribute a join relations r on r.oid = a.attrelid where a.attnum > 0
union select t.tgname from pg_trigger t where not t.tgisinternal
union select policyname from pg_policies
union select rolname from pg_roles
"""
ARGUMENTS = """
select case p.pronamespace when 'memoryd'::regnamespace then 'memoryd.' else '' end || p.proname as name,
       coalesce(p.proargnames, '{}') as arguments
from pg_proc p where p.pronamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
"""
VALUES = """
select string_agg(said, E'\n') from (
    select pg_get_constraintdef(oid) as said from pg_constraint
    union all select prosrc from pg_proc
    where pronamespace in ('public'::regnamespace, 'memoryd'::regnamespace)) s
"""
NOT_OURS = {
    "service_role",
    "auth.users",
    "supabase_realtime",
    "request.jwt.claims",
    "agent-memory",
    "rpc",
    "select",
}
"""What a gateway or Supabase calls so."""


def names_of_ours(document: Path) -> Iterator[str]:
    """What a page about another design says of memoryd in code: all but examples, and the first cell of each row."""
    text = re.sub(r"```.*?```", "", document.read_text("utf-8"), flags=re.DOTALL)
    yield from re.findall(r"`([^`]+)`", re.sub(r"^\|.*? \|", "", text, flags=re.MULTILINE))


async def test_what_the_pages_about_other_designs_name_exists(connection: asyncpg.Connection) -> None:
    """Each name is a table, a column, a function with these arguments, a setting, an event of the log, a command or a value."""
    ours = {row[0] for row in await connection.fetch(NAMED)} | NOT_OURS | set(logged_events()) | set(LEDGERS)
    ours |= {PREFIX + name.upper() for name in all_settings().model_fields}
    arguments: dict[str, set[str]] = {
        r["name"]: set(r["arguments"]) for r in await connection.fetch(ARGUMENTS)
    }
    values = await connection.fetchval(VALUES)

    def exists(name: str) -> bool:
        if call := re.fullmatch(r'"?([a-z_.-]+)"?\(([^)]*)\)', name):
            given = {word.split(" ")[0] for word in call[2].split(", ") if word}
            return call[1] in arguments and given <= arguments[call[1]]
        return (
            name in ours
            or name.startswith(("memoryd ", "insert into "))
            or re.search(rf"[{{',]{re.escape(name)}[}}',]", values) is not None
        )

    pages = sorted((ROOT / "docs/from").glob("*.md"))
    assert len(pages) == 5
    assert {p.name: [n for n in names_of_ours(p) if not exists(n)] for p in pages} == {
        p.name: [] for p in pages
    }
