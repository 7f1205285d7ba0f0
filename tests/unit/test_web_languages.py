"""The pages say everything in each of their languages."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from daemon.web import languages, render
from daemon.web.languages import LANGUAGES, catalog

WEB = Path(render.__file__).parent
OTHERS = sorted(set(LANGUAGES) - {"en"})
SENTENCES = ("refusal", "BadValueError", "TooLongError")
"""What shows its last argument to the reader."""


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


def said_by_code() -> set[str]:
    """The sentences of errors that are constants, and the names in the menu."""
    found = {name for _path, name in render.MENU}
    for file in WEB.glob("**/*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in SENTENCES and node.args:
                last = node.args[-1]
                if isinstance(last, ast.Constant) and isinstance(last.value, str):
                    found.add(last.value)
    return found


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_has_a_translation(language: str) -> None:
    said = said_by_templates() | said_by_code()
    assert len(said) > 50
    assert said - set(catalog(language)) == set()


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_names_the_same_values(language: str) -> None:
    for english, other in catalog(language).items():
        for form in [other] if isinstance(other, str) else other:
            assert names(form) <= names(english), english
            assert form.strip(), english


def names(text: str) -> set[str]:
    """What is put into a text: %(id)s is id."""
    return {part.partition(")")[0] for part in text.split("%(")[1:]}


@pytest.mark.parametrize("language", OTHERS)
def test_a_text_is_translated_in_one_way(language: str) -> None:
    seen: dict[str, tuple[str, object]] = {}
    for file in sorted((languages.FOLDER / language).glob("*.json")):
        pairs = json.loads(file.read_text("utf-8"), object_pairs_hook=list)
        for english, other in pairs:
            name, before = seen.setdefault(english, (file.name, other))
            assert other == before, f"{english}: in {name} as {before}, in {file.name} as {other}"
