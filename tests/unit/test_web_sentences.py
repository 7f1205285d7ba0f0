"""Each sentence that the code can show on a page has its translation, and is told in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.audit.find import OPTIONAL, RULES
from daemon.audit.rule import SqlRule
from daemon.web.languages import LANGUAGES, catalog
from daemon.web.sentences import Sentences
from tests.support.repository import ROOT
from tests.support.sentences import VALUE, Module

OTHERS = sorted(set(LANGUAGES) - {"en"})
Calls = dict[str, tuple[int | str, ...]]
VALUE_ERROR: Calls = {"ValueError": (0,)}
# Where sentences for pages are made: the files; calls, with the arguments that are shown; functions that return one.
MADE: tuple[tuple[str, Calls, tuple[str, ...]], ...] = (
    ("daemon/web/**/*.py", VALUE_ERROR | {"refusal": (-1,), "BadValueError": (0,), "TooLongError": (0,)}, ()),
    ("daemon/web/background.py", {".trouble": ()}, ("_fault_of_the_database",)),
    ("daemon/web/pages/now_doctor.py", {"NoAnswerError": (0,)}, ()),
    ("daemon/health/*.py", {"Check": (2, 3), "replace": ("advice",)}, ()),
    ("daemon/health/doctor.py", {}, ("_read_schema",)),
    ("daemon/health/replica_check.py", {}, ("_local_trouble",)),
    ("daemon/db/catalog.py", {}, ("changed_since",)),
    ("daemon/db/foreign.py", {}, ("advise_on_overloads", "say_overloads")),
    ("daemon/db/obstacles.py", {}, ("say_obstacles",)),
    ("daemon/db/plan.py", {}, ("schema_trouble",)),
    ("daemon/db/standby.py", {}, ("__str__",)),
    ("daemon/cli/failure.py", {}, ("explain", "_refused")),
    ("daemon/replica/**/*.py", VALUE_ERROR | {"FolderUnavailable": (0,)}, ()),
    ("providers/build.py", VALUE_ERROR, ()),
    ("providers/extras.py", {}, ("missing",)),
    ("daemon/audit/*.py", VALUE_ERROR | {"NotForgottenError": (0,), "Finding": ("reason",), "replace": ("reason",)}, ()),
    ("daemon/audit/repair.py", {}, ("intended",)),
    ("daemon/trail/[bklpr]*.py", VALUE_ERROR | {"Break": (3,), "NoProof": (0,), "NotSigned": (0,), "_Missing": (0,)}, ()),
    ("daemon/trail/ledgers.py", {"Asked": ("reason",), ".reason": ()}, ()),
    ("daemon/trail/reading.py", {}, ("_of_row",)),
    ("memory/trail/[anpt]*.py", {"Break": (3,), "BadNote": (0,), "_Foreign": (0,), "__init__": (0,)}, ()),
)  # fmt: skip
# What is said by a list, or by SQL: the file, and what each of these stands in.
LISTED = (
    ("daemon/audit/patterns.py", r'"(an? [^"]+)"'),
    ("daemon/audit/derived.py", r'Way\(\s*"\w+", "\w+", "([^"]+)"'),
    ("migrations/functions/audit/texts.sql", r"(?:then|return) '(it [^']+)'"),
    ("migrations/functions/index/states.sql", r"(?:then|else) '(\w+ [^']+)'"),
    ("migrations/functions/search/rank.sql", r"then '(\w+ [^']+)'(?=\s+(?:when|end))"),
    ("migrations/functions/search/search.sql", r"then '(linked [^']+)'"),
    ("migrations/functions/context/compose.sql", r"then '(\w+ [^']+)'"),
    ("migrations/functions/context/lines.sql", r"then '(not [^']+)'"),
    ("migrations/functions/context/explain.sql", r"\('\w+', '([^']+)'\)"),
)
# What passes on a sentence that one of these makes, or Postgres, or a provider.
ELSEWHERE = {
    "say_overloads(found)", "advise_on_overloads(found)",
    "str(error)", "str(lacking)", "says", "missing.reason", "r['reason']", "missing('Google Drive', 'gdrive')",
    "*split_advice(str(error))", "*split_advice(trouble)", "*split_advice(row['trouble'])",
    "explain(error) or _fault_of_the_database(error)", "one_line(str(error), 500) if expected else type(error).__name__",
}  # fmt: skip
COMMAND = re.compile(
    "(select|insert|update|set|alter|create|grant|revoke|pipx|memoryd|[.]venv/bin/pip) "
    "|(local|openai|fastembed|functions)/|7 to 7$"
)
"""What is typed as it stands."""


def said() -> Iterator[tuple[Path, str]]:
    """The sentences, each with its file."""
    for pattern, calls, functions in MADE:
        files = sorted(ROOT.glob(pattern))
        assert files, pattern
        for module in map(Module, files):
            found = {
                *module.said_in(calls, ELSEWHERE),
                *(text for name in functions for text in module.returned_by(name)),
            }
            assert found or len(files) > 1, module.file
            yield from ((module.file, text) for text in sorted(found | module.items))
    for name, pattern in LISTED:
        listed = re.findall(pattern, (ROOT / name).read_text("utf-8"))
        assert listed, name
        yield from ((ROOT / name, text) for text in listed)
    for rule in RULES:
        assert isinstance(rule, SqlRule)
        reasons = re.findall(r"format\('([^']+)'", rule.sql)
        assert reasons or "says_nothing" in rule.sql
        yield from ((Path(rule.name), re.sub("%[sL]", VALUE, reason)) for reason in reasons)
    for each in (*RULES, *OPTIONAL):
        yield Path(each.name), each.says
        yield Path(each.name), each.repairs


@pytest.mark.parametrize("language", OTHERS)
def test_every_sentence_of_the_code_has_a_translation(language: str) -> None:
    sentences = Sentences(catalog(language))
    untold = {}
    for file, text in said():
        left = [
            part
            for part in sentences.tell(text).left
            if re.search("[a-z]{2}", part) and not COMMAND.match(part)
        ]
        if left:
            untold[text] = (file.name, left)
    assert untold == {}


WORDS: dict[str, str | list[str]] = {
    "The database has {} MB.": "Die Datenbank hat {} MB.",
    "{} leaves.": ["{} Blatt.", "{} Blätter."],
    "Failed: {}.": "Gescheitert: {}.",
    "{} of daemon {} ({})": "{} von Daemon {} ({})",
    "Ask later.": "Später fragen.",
    "The part {} of the database has {} MB.": "Teil {} der Datenbank hat {} MB.",
    "size": "Größe",
}


@pytest.mark.parametrize(
    ("english", "other"),
    [
        ("The database has 12,345,678.9 MB.", "Die Datenbank hat 12\u202f345\u202f678.9 MB."),
        ("1 leaves.", "1 Blatt."),
        ("1,001 leaves.", "1\u202f001 Blätter."),
        ("0 leaves. Ask later.", "0 Blätter. Später fragen."),
        # The template that says more fits, though another does, too; and a value of one word is a name.
        ("The part size of the database has 3 MB.", "Teil size der Datenbank hat 3 MB."),
        ("Failed: index of daemon 7 (down), dream of daemon 8 (No route to host).",
         "Gescheitert: index von Daemon 7 (down), dream von Daemon 8 (No route to host)."),
        # What a provider or Postgres said, or what is typed, stays; what stands beside it does not.
        ("relation x, as in y, is missing. Ask later.", "relation x, as in y, is missing. Später fragen."),
        ("Failed: size, index.", "Gescheitert: size, index."),
        ("Failed: No route to host. Is it up?.", "Gescheitert: No route to host. Is it up?."),
        ("{0.__class__} {} leaves", "{0.__class__} {} leaves"),
        ("Failed: {0.__class__}.", "Gescheitert: {0.__class__}."),
        ("", ""),
    ],
)  # fmt: skip
def test_a_sentence_is_told_with_its_values(english: str, other: str) -> None:
    assert Sentences(WORDS).tell(english).text == other
    assert Sentences({}).tell(english).text == english
