"""The map of the SQL says which functions call which, and none is there that nothing calls."""

from __future__ import annotations

import re
from pathlib import Path

from docs.map_sql import ROOT, Sources, draw

SOURCES = Sources()


def test_every_function_is_in_the_map() -> None:
    written = re.findall(
        r'^create or replace function \w+\."?([\w-]+)', "".join(SOURCES.files.values()), re.MULTILINE
    )
    assert len(written) > 400
    document = draw(SOURCES)
    assert [name for name in written if f"`{name}`" not in document] == []


def test_a_function_is_shown_once_and_says_what_it_does() -> None:
    shown = re.findall(r"^ *- `([\w-]+)`(?: \([\w/.]+\))?: (?!\[below\])(.*)", draw(SOURCES), re.MULTILINE)
    assert len({name for name, _ in shown}) == len(shown) > 200
    unclear = re.compile(r"\W|The same\b|All of these\b|Of an? ")
    assert [name for name, purpose in shown if unclear.match(purpose)] == []


def test_every_function_is_called() -> None:
    """From the daemon, a client, a trigger, a view, a policy; or users call it, as the documents say."""
    code = [
        path.read_text("utf-8")
        for package in (
            "daemon",
            "handlers",
            "memory",
            "plugins",
            "providers",
            "clients",
            "migrations/schema",
        )
        for path in (ROOT / package).rglob("*.*")
        if path.suffix in {".py", ".sql", ".ts"} and "node_modules" not in path.parts
    ]
    tables = [text for file, text in SOURCES.files.items() if file.startswith("tables/")]
    pages = [(ROOT / "docs" / page).read_text("utf-8") for page in ("sql.md", "privacy.md", "operations.md")]
    named = set(re.findall(r'\b(?:memoryd|public)\."?([\w-]+)', "\n".join([*code, *tables])))
    public = set(
        re.findall(
            r'^create or replace function public\."?([\w-]+)', "".join(SOURCES.files.values()), re.MULTILINE
        )
    )
    documented = set(re.findall(r"memoryd\.(\w+)\(", "\n".join(pages)))
    fired = {function for _, _, functions in SOURCES.trigger_rows for function in functions}
    waiting = [name for name in SOURCES.functions if name in named | public | documented | fired]
    alive = set(waiting)
    while waiting:
        new = set(SOURCES.calls[waiting.pop()]) - alive
        alive |= new
        waiting += new
    assert sorted(SOURCES.functions.keys() - alive) == []


def test_the_steps_of_a_search_name_functions_where_they_are() -> None:
    page = (ROOT / "docs/retrieval.md").read_text("utf-8")
    steps = re.findall(r"`(\w+)\(\)` in `([\w/]+\.sql)`", page)
    assert len(steps) > 15
    assert [step for step in steps if SOURCES.functions[step[0]].file != step[1]] == []
    recalled, waiting = {"recall"}, ["recall"]
    while waiting:
        new = set(SOURCES.calls[waiting.pop()]) - recalled
        recalled |= new
        waiting += new
    assert {name for name, _ in steps} <= recalled


def test_calls_triggers_and_tables_are_read_from_the_text(tmp_path: Path) -> None:
    functions = tmp_path / "functions"
    functions.mkdir()
    (functions / "one.sql").write_text(
        """\
-- The head of the file.

-- First sentence, of two
-- lines. A second.
create or replace function public.entry(p integer) returns integer
language sql
return memoryd.two(p) + 1; -- memoryd.three()

create or replace function memoryd.two(p integer) returns integer
language plpgsql
as $$
begin
    -- not memoryd.three()
    insert into public.notes values (memoryd.two(1));
    execute 'select memoryd.four()';
end
$$;
comment on function memoryd.two(integer) is
    'What it''s '
    'for. And more.';

create or replace function memoryd.three() returns integer
begin atomic
    select 1;
end;
""",
        "utf-8",
    )
    triggers = tmp_path / "triggers.md"
    triggers.write_text(
        "| table | on | fires, in this order |\n"
        "| `notes` | insert | before each row: `z`\\* (two); after the statement: `four`, `b` (three), `c` (four) |\n"
        "| `notes` | update | before each row: `five` |\n",
        "utf-8",
    )
    (functions / "two.sql").write_text(
        "create or replace function memoryd.four() returns integer\nreturn 1;\n"
    )
    sources = Sources(functions, triggers=triggers)
    assert dict(sources.calls) == {"entry": ("two",), "two": ("four",), "three": (), "four": ()}
    assert {name: each.purpose for name, each in sources.functions.items()} == {
        "entry": "First sentence, of two lines",
        "two": "What it's for",
        "three": "",
        "four": "",
    }
    assert sources.functions["four"].file == "two.sql"
    assert sources.triggers["notes"] == ("two", "four", "three")
    assert sources.written_in(sources.functions["two"].text) == ("notes",)
