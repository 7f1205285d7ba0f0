"""Which SQL functions call which; none is there that nothing calls."""

from __future__ import annotations

import re
from pathlib import Path

from docs.map_sql import ROOT, Sources, way_to

SOURCES = Sources()


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
    # Loops make triggers by the bare names of their functions, of which some end with the event.
    triggers = re.sub(r"--.*", "", SOURCES.files["tables/triggers.sql"])
    events = ("inserted", "updated", "deleted")
    fired = {re.sub("%+s", event, name) for name in re.findall(r"\w+(?:%+s)?", triggers) for event in events}
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


def test_calls_are_read_from_the_text(tmp_path: Path) -> None:
    functions = tmp_path / "functions"
    functions.mkdir()
    (functions / "one.sql").write_text(
        """\
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
create or replace function memoryd.three() returns integer
begin atomic
    select 1;
end;
""",
        "utf-8",
    )
    (functions / "two.sql").write_text(
        "create or replace function memoryd.four() returns integer\nreturn 1;\n"
    )
    sources = Sources(functions)
    assert dict(sources.calls) == {"entry": ("two",), "two": ("four",), "three": (), "four": ()}
    assert sources.functions["four"].file == "two.sql"
    assert list(way_to(sources, "four")) == ["four (two.sql)", "  two (one.sql)", "    entry (one.sql)"]
