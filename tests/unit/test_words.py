"""One word for one thing: names in the code keep to docs/glossary.md."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

from daemon.settings import all_settings
from tests.support.repository import ROOT

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text("utf-8")
ROOMS = (
    "daemon",
    "handlers",
    "memory",
    "plugins",
    "providers",
    "migrations",
    "clients/python/src",
    "clients/typescript/src",
)
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}

# Where a word with one meaning may stand: in names, or anywhere in files whose path begins so.
# Words of libraries, of Postgres and of designs that memoryd follows are what they are.
MAY_STAND: Mapping[str, tuple[set[str], tuple[str, ...]]] = {
    "context": (
        {
            "CONTEXT", "Context", "ContextHandler", "ContextOptions", "OF_CONTEXT", "build_context",
            "context_line", "context_space", "context_words", "explain_context",
            "load_context",
            # Of designs: a chunk's heading, projects, the reasoning of a decision, a campaign.
            "allowed_contexts", "campaign_context", "decision_context",
            "memory_chunks_context_size", "shared_knowledge_decision_context_size",
            "user_memory_access_allowed_contexts_size",
        },
        # The block; and typer's word for a call.
        (
            "clients/python/src/memoryd_client/", "clients/typescript/src/", "plugins/embedded/demo/",
            "daemon/cli/recall.py", "plugins/health/dead.py",
            "plugins/trail/cli/anchors.py", "plugins/secrets/cli.py", "plugins/hooks/memory.py", "plugins/mcp/tools.py",
            "plugins/move_in/cli/know.py", "handlers/context.py",
            "migrations/functions/context/", "migrations/functions/documents/", "migrations/functions/memories/quotes.sql",
            "migrations/functions/search/options.sql", "migrations/functions/tables/", "migrations/schema/",
        ),
    ),
    "place": (set(), ("memory/facts/", "plugins/replica/", "migrations/functions/replica/")),
    "note": (
        {"note_knowledge", "check_note", "NoteOptions"},
        (
            # The kind of a memory, as a type; and a call of knowledge.
            "clients/python/src/memoryd_client/knowledge.py", "clients/python/src/memoryd_client/sync.py",
            "clients/typescript/src/knowledge.ts", "clients/typescript/src/options.ts", "clients/typescript/src/tools.ts",
            "plugins/embedded/demo/", "plugins/move_in/", "plugins/trail/",
            "migrations/schema/0010_anchors.sql", "plugins/replica/",
            "migrations/functions/replica/", "migrations/functions/tables/triggers.sql",
        ),
    ),
    "trigger": ({"pg_trigger", "pg_trigger_depth", "trigger"}, ()),
}  # fmt: skip


@cache
def identifiers() -> dict[str, set[str]]:
    """Each name that the code gives or uses, and in which files."""
    found: dict[str, set[str]] = defaultdict(set)
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.*"):
            if path.suffix in {".py", ".sql", ".ts"} and "node_modules" not in path.parts:
                text, read = path.read_text("utf-8"), _of_python if path.suffix == ".py" else _of_others
                for name in read(text):
                    found[name].add(path.relative_to(ROOT).as_posix())
    for name in all_settings().model_fields:
        found[name].add("a setting")
    return found


def _of_python(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.arg(arg=name)
            ):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.Call(func=ast.Attribute(attr=level), args=[ast.Constant(value=str(event)), *_]) if (
                level in LEVELS
            ):
                yield event


def _of_others(text: str) -> Iterator[str]:
    code = re.sub(r"--[^\n]*|//[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", " ", text, flags=re.DOTALL)
    yield from re.findall(r"[A-Za-z_]\w*", code)


def parts(name: str) -> set[str]:
    """The words of a name, in lower case and without the s of a plural."""
    return {part.lower().removesuffix("s") for part in re.split(r"_+|(?<=[a-z\d])(?=[A-Z])", name) if part}


def test_no_name_has_a_word_that_the_glossary_gives_up() -> None:
    rows = [line.split("|") for line in GLOSSARY.splitlines() if line.startswith("| ")]
    given_up = {word.removesuffix("s") for row in rows for word in re.findall(r"\*(\w+)\*", row[-2])}
    assert len(given_up) > 20
    assert len(identifiers()) > 5_000
    assert {name: files for name, files in identifiers().items() if parts(name) & given_up} == {}


def test_a_word_with_one_meaning_stands_only_where_it_is_meant() -> None:
    wrong = [
        (name, file)
        for word, (names, rooms) in MAY_STAND.items()
        for name, files in identifiers().items()
        if word in parts(name) and name not in names
        for file in files
        if not file.startswith(rooms)
    ]
    assert wrong == []


def test_the_names_that_may_have_such_a_word_are_there() -> None:
    assert [name for names, _ in MAY_STAND.values() for name in names if name not in identifiers()] == []
