"""The pages say everything in each of their languages."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from jinja2 import nodes

from daemon.audit.derived import WAYS, Kind
from daemon.audit.find import OPTIONAL, RULES
from daemon.health.check import Verdict
from daemon.web import languages, render
from daemon.web.languages import LANGUAGES, catalog
from memory.trail.audit import How
from tests.support.repository import ROOT

WEB = Path(render.__file__).parent
OTHERS = sorted(set(LANGUAGES) - {"en"})


def said_by_templates() -> set[str]:
    """Each text of the templates, singular and plural."""
    found = set()
    environment = render.environment("en")
    for file in WEB.glob("templates/**/*.html"):
        for _line, _function, said in environment.extract_translations(file.read_text("utf-8")):  # type: ignore[attr-defined]
            # Of a variable it tells None: the words of these are in lists of the code.
            first = said if isinstance(said, str | None) else said[0]
            if first is not None:
                found.add(str(first))
    return found


def words_of_templates() -> set[str]:
    """What badges say, and other words that are shown by `words`, where a template has them itself."""
    environment = render.environment("en")
    shown: list[nodes.Node] = []
    for file in WEB.glob("templates/**/*.html"):
        tree = environment.parse(file.read_text("utf-8"))
        shown += [
            call.args[0] for call in tree.find_all(nodes.Call) if getattr(call.node, "name", "") == "badge"
        ]
        shown += [
            each.node
            for each in tree.find_all(nodes.Filter)
            if each.name == "words" and each.node is not None
        ]
    return {word for node in shown for word in constants(node)}


def constants(node: nodes.Node) -> Iterator[str]:
    """The words that an expression of a template can be."""
    match node:
        case nodes.Const(value=str(word)):
            yield word
        case nodes.CondExpr():
            yield from constants(node.expr1)
            yield from constants(node.expr2) if node.expr2 is not None else ()


def words_of_code() -> set[str]:
    """The menu; lists of words in the pages (kinds, statuses), and what else the code knows by a closed list."""
    found = {name for _path, name in render.MENU} | {rule.name for rule in (*RULES, *OPTIONAL)}
    found |= {*get_args(Verdict), *Kind, *(word for way in WAYS for word in (way.kind, way.says))}
    found |= {how for how in get_args(How) if how != "unverifiable"}  # the template says it otherwise
    for file in (WEB / "found.py", *WEB.glob("pages/*.py")):
        for statement in ast.parse(file.read_text("utf-8")).body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Tuple):
                values = [getattr(each, "value", None) for each in statement.value.elts]
                if all(isinstance(value, str) for value in values):
                    found |= {str(value).replace("_", " ") for value in values}
    for file in (ROOT / "daemon/health").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Check":
                found |= {str(each.value) for each in node.args[:1] if isinstance(each, ast.Constant)}
    return found


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_has_a_translation(language: str) -> None:
    said = said_by_templates() | words_of_templates() | words_of_code()
    assert len(said) > 500
    assert said - set(catalog(language)) == set()


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_names_the_same_values(language: str) -> None:
    for english, other in catalog(language).items():
        for form in [other] if isinstance(other, str) else other:
            assert names(form) <= names(english), english
            assert form.strip(), english


def names(text: str) -> set[str]:
    """What is put into a text: %(id)s is id; of {} how many there are."""
    return {part.partition(")")[0] for part in text.split("%(")[1:]} | {f"{{}} {text.count('{}')}"}


@pytest.mark.parametrize("language", OTHERS)
def test_a_text_is_translated_in_one_way(language: str) -> None:
    seen: dict[str, tuple[str, object]] = {}
    for file in sorted((languages.FOLDER / language).glob("*.json")):
        pairs = json.loads(file.read_text("utf-8"), object_pairs_hook=list)
        for english, other in pairs:
            name, before = seen.setdefault(english, (file.name, other))
            assert other == before, f"{english}: in {name} as {before}, in {file.name} as {other}"
