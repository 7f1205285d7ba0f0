"""The form of the SQL files: short lines, short functions, each function in one place, files that call only what is above.

No database is needed: the files are read as text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

MIGRATIONS = Path(__file__).parents[3] / "migrations"
FUNCTIONS = MIGRATIONS / "functions"
MAX_COLUMNS = 110
MAX_LINES = 80

ANY_FUNCTION = re.compile(r"\bcreate\s+(?:or\s+replace\s+)?function\s+(\w+\.\w+)", re.IGNORECASE)
FUNCTION = re.compile(r"^create (?:or replace )?function (\w+\.\w+)", re.MULTILINE)
SIGNATURE = re.compile(
    r"^create (?:or replace )?function (\w+\.\w+)\s*\(((?:[^()]|\([^()]*\))*)\)", re.MULTILINE
)
CALL = re.compile(r"\b((?:memoryd|public)\.\w+)\(")
# A function named without its arguments: another of that name makes the statement fail.
WITHOUT_ARGUMENTS = re.compile(
    r"""\b(?:on|(?:drop|alter)) (?:function|routine)(?: if exists)? (?:\w+\.)?(?:"[^"]+"|\w+)(?![\w."%(]) *(?!\()"""
    r"""|'[\w.]+'::regproc(?:edure)?\b|::regproc\b""",
    re.IGNORECASE,
)
TEMPLATE = re.compile(r"\bexecute\s+(?:\w+\s*\(\s*)*replace\s*\(", re.IGNORECASE)


def read(file: Path) -> str:
    """The text of a file, without comments."""
    return re.sub(r"--[^\n]*", "", file.read_text("utf-8"))


def schema_files() -> list[Path]:
    return sorted((MIGRATIONS / "schema").glob("*.sql"))


def ordered_names() -> list[str]:
    """The names in functions/order.txt, in their order."""
    lines = (line.partition("#")[0].strip() for line in (FUNCTIONS / "order.txt").read_text().splitlines())
    return [line for line in lines if line]


def all_files() -> list[Path]:
    """Numbered files and files of functions."""
    return sorted(MIGRATIONS.rglob("*.sql"))


def present_files() -> list[Path]:
    """Those that a new database is made of."""
    return [*schema_files(), *sorted(FUNCTIONS.rglob("*.sql"))]


def functions_in(text: str) -> Iterator[tuple[str, int]]:
    """Each function of a file with its number of lines, from `create` to the end of its body."""
    starts = [(match[1], match.start()) for match in FUNCTION.finditer(text)]
    for name, start in starts:
        quote = re.compile(r"^as (\$\w*\$)", re.MULTILINE).search(text, start)
        atomic = re.compile(r"^begin atomic$", re.MULTILINE).search(text, start)
        simple = re.compile(r"^return\b", re.MULTILINE).search(text, start)
        body = min((found for found in (quote, atomic, simple) if found), key=lambda found: found.start())
        if body is quote:
            end = text.index(f"{quote[1]};", quote.end())
        elif body is atomic:
            end = text.index("\nend;", body.end()) + 1
        else:
            end = text.index(";\n", body.end())
        yield name, text.count("\n", start, end) + 1


def signatures(text: str) -> list[str]:
    """Each function of a file with the arguments that it takes: functions with other arguments may have the same name."""
    return [re.sub(r"\s+", " ", f"{name}({arguments})") for name, arguments in SIGNATURE.findall(text)]


def repeated(names: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def too_long(text: str) -> list[int]:
    """The numbers of the lines that are too long."""
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line) > MAX_COLUMNS]


def test_no_line_is_too_long() -> None:
    assert len(all_files()) > 50
    found = {str(file.relative_to(MIGRATIONS)): too_long(file.read_text("utf-8")) for file in all_files()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_no_function_is_too_long() -> None:
    lengths = [length for file in all_files() for length in functions_in(file.read_text("utf-8"))]
    assert len(lengths) > 100
    assert [(name, lines) for name, lines in lengths if lines > MAX_LINES] == []


def test_each_function_is_defined_once_and_found_by_grep() -> None:
    texts = [read(file) for file in present_files()]
    at_line_begin = [name for text in texts for name in FUNCTION.findall(text)]
    assert Counter(name for text in texts for name in ANY_FUNCTION.findall(text)) == Counter(at_line_begin)
    found = [signature for text in texts for signature in signatures(text)]
    assert len(found) == len(at_line_begin)
    assert repeated(found) == []


def test_functions_of_the_same_name_stand_in_one_file() -> None:
    assert repeated(name for file in present_files() for name in set(FUNCTION.findall(read(file)))) == []


def test_every_file_of_functions_has_one_place_in_the_order() -> None:
    files = sorted(str(file.relative_to(FUNCTIONS)) for file in FUNCTIONS.rglob("*.sql"))
    assert sorted(ordered_names()) == files


def test_no_file_calls_a_function_of_a_later_file() -> None:
    names = ordered_names()
    place = {name: -1 for file in schema_files() for name in FUNCTION.findall(read(file))}
    for number, file in enumerate(names):
        place |= dict.fromkeys(FUNCTION.findall(read(FUNCTIONS / file)), number)
    later = [
        f"{file} calls {called} of {names[place[called]]}"
        for number, file in enumerate(names)
        for called in sorted(set(CALL.findall(read(FUNCTIONS / file))))
        if place.get(called, -1) > number
    ]
    assert later == []


def test_every_function_that_is_called_exists() -> None:
    texts = [read(file) for file in present_files()]
    defined = {name for text in texts for name in FUNCTION.findall(text)}
    # `insert into memoryd.jobs (...)` has a blank before its parenthesis: only calls are found.
    called = {name for text in texts for name in CALL.findall(text) if name.startswith("memoryd.")}
    assert called - defined == set()


def test_every_function_is_named_with_its_arguments() -> None:
    """But for one in a numbered file, which is applied to a new database only."""
    found = {
        str(file.relative_to(FUNCTIONS)): WITHOUT_ARGUMENTS.findall(read(file))
        for file in FUNCTIONS.rglob("*.sql")
    }
    assert {file: names for file, names in found.items() if names} == {}


def test_no_statement_is_made_by_replacing_text() -> None:
    assert [
        str(file.relative_to(MIGRATIONS)) for file in present_files() if TEMPLATE.search(read(file))
    ] == []


@pytest.mark.parametrize("file", present_files(), ids=lambda file: str(file.relative_to(MIGRATIONS)))
def test_a_file_begins_by_saying_what_it_has(file: Path) -> None:
    assert re.match(r"-- \S", file.read_text("utf-8"))


# --- The checks find what they look for.


def test_the_length_of_each_form_of_function_is_found() -> None:
    text = (
        "create function memoryd.one() returns integer\nlanguage sql\nreturn 1\n    + 1;\n\n"
        "create or replace function memoryd.two() returns integer\nlanguage sql\n"
        "as $$ select 2 $$;\ncomment on function memoryd.two is 'Two.';\n\n"
        "create function memoryd.three() returns integer\nlanguage sql\nbegin atomic\n    select 3;\nend;\n\n"
        "create function memoryd.four() returns trigger\nlanguage plpgsql\nas $x$\nbegin\n"
        "    return new;\nend\n$x$;\n"
    )
    assert list(functions_in(text)) == [
        ("memoryd.one", 4), ("memoryd.two", 3), ("memoryd.three", 5), ("memoryd.four", 7),
    ]  # fmt: skip


def test_functions_with_the_same_arguments_are_found() -> None:
    one, same, other = (
        f"create function memoryd.one({arguments}) returns integer\n"
        for arguments in ("p_a numeric(3, 1),\n p_b text", "p_a numeric(3, 1), p_b text", "p_a text")
    )
    assert repeated(signatures(one + other)) == []
    assert repeated(signatures(one + other + same)) == ["memoryd.one(p_a numeric(3, 1), p_b text)"]


def test_functions_named_without_arguments_are_found() -> None:
    for wrong in (
        "comment on function public.forget is 'x'", "grant execute on function memoryd.find to a", "drop function forget;",
        "alter function public.forget\n    owner to a", "drop function if exists a, b;", "t.tgfoid = 'memoryd.gone'::regproc",
        'revoke all on function public."agent-memory-read" from a', "'memoryd.gone'::regprocedure",
        "execute format('comment on function public.forget is %L', 'x')",
    ):  # fmt: skip
        assert WITHOUT_ARGUMENTS.search(wrong), wrong
    for right in (
        "comment on function public.forget(uuid[], text) is 'x'", "'memoryd.gone()'::regprocedure",
        "execute format('comment on function public.recall%s is %L', a, b)", "revoke all on function %s from %s",
        'drop function public."agent-memory-read"(text);', "grant all on functions to x",
        "for each row execute function memoryd.f()",
    ):  # fmt: skip
        assert not WITHOUT_ARGUMENTS.search(right), right


def test_long_lines_and_templates_are_found() -> None:
    assert too_long("a\n" + "b" * (MAX_COLUMNS + 1) + "\n" + "c" * MAX_COLUMNS) == [2]
    assert TEMPLATE.search("execute replace(template, '@table', name);")
    assert TEMPLATE.search("execute format(replace(template, 'a', 'b'))")
    assert not TEMPLATE.search("grant execute on function memoryd.replace to memoryd_user")
