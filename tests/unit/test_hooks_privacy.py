"""What the hooks of coding agents leave out of what they send."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from plugins.hooks import privacy
from plugins.hooks.privacy import Rules, cleaned
from tests.support.content.credentials import FORMS, LETTERS, MIXED, ORDINARY, written

KEY = "aB3dEfGh" * 6


@pytest.mark.parametrize(
    "text",
    [
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "MY_APP_API_KEY=abcdef12345", "PGPASSWORD=hunter", "DB_PASS=s3cret",
        "export GITHUB_ACCESS_TOKEN=abcd-efgh", "clientSecret: 'abc def'", "SECRET_KEY = 'django-insecure'",
        "authToken=abc123def",
        "mysql -u root -pHunter2 db", "curl -u ann:hunter2 https://x", "psql --password hunter2", "--token=abcdef",
        "Authorization: Basic YWxhZGRpbg==", "Cookie: session=abcdef", "the password is: hunter22", "my password is hunter22x",
        "rediss://:pw123@host/0", "postgres://u:p@ss@host/db", "postgres://u:p@host", "password=pa$$word123",
        f"xapp-1-{KEY}", f"ya29.{KEY}", f"GOCSPX-{KEY}", f"whsec_{KEY}", f"gsk_{KEY}", f"hvs.{KEY}",
        f"sk-proj-{KEY}", f"ghp_{KEY}", f"dckr_pat_{KEY}", "123456789:AAF" + "a" * 32,
        f"https://hooks.slack.com/services/T0/B0/{KEY}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n{KEY}", f"AccountKey={KEY};x",
        f"AGE-SECRET-KEY-{KEY.upper()}", "pa\u017f\u017fword=hunter22", "PASSWORD=HUNTER2x",
        "log\u0131n joe password hunter22", "\u03f0\u03c9\u03b4\u03b9\u03f0\u03cc\u03c2: hunter22x",
    ],
)  # fmt: skip
def test_a_credential_is_left_out(text: str) -> None:
    shown = cleaned(f"Use this: {text}", 1000)
    assert "[secret]" in shown
    for part in (
        "unter",
        "s3cret",
        "abcd",
        "abc123",
        "wJalr",
        "django",
        "YWx",
        "pw123",
        "p@",
        "pa$$",
        KEY[:20],
        KEY[:20].upper(),
        "UNTER",
        "a" * 32,
    ):
        assert part not in shown


PRIVATE = [
    'a <private>b <private>c</private> {L}</private> d', 'a <PRIVATE >{L}</PRIVATE > b', 'a <private>{L}',
    'a < private >{L}</ private > b', "a <private why='x'>{L}</private> b", 'a <private\n>{L}</private\n> b',
    'a <private><private>x</private>{L} b', 'a &lt;private&gt;{L}&lt;/private&gt; b', 'a {L}</private> b',
    'a <private/>{L}</private> b', 'a \uff1cprivate\uff1e{L}\uff1c/private\uff1e b', 'a <pri\u200bvate>{L}</private> b',
    "a &#60;private&#62;{L}&#60;/private&#62; b", "a &#x3c;private&#x3e;{L}&#x3c;/private&#x3e; b",
    "a \\u003cprivate\\u003e{L}\\u003c/private\\u003e b", "a <private>{L}<\\/private> b",
    "a <\uff50\uff52\uff49\uff56\uff41\uff54\uff45>{L}</\uff50\uff52\uff49\uff56\uff41\uff54\uff45> b",
    "a %3Cprivate%3E{L}%3C/private%3E b", "a \u2039private\u203a{L}\u2039/private\u203a b",
    "a &amp;lt;private&amp;gt;{L}&amp;lt;/private&amp;gt; b",
]  # fmt: skip


@pytest.mark.parametrize("form", [*FORMS, *PRIVATE])
def test_a_credential_is_known_by_the_form_of_what_stands_around_it(form: str) -> None:
    """Also one of letters alone, in command lines, settings, addresses and sentences; and what is marked as private."""
    shown = cleaned("See: " + written(form) + " thanks", 1000)
    assert LETTERS not in shown
    assert MIXED not in shown
    assert "[secret]" in shown or "[private]" in shown


PARTS = [*privacy.TOKENS.items(), *privacy.FORMS, *privacy.NAMES.items()]


@pytest.mark.parametrize(("words", "form"), PARTS)
def test_a_form_is_left_out_only_where_it_cannot_match(words: str, form: str) -> None:
    """Whatever a form matches has one of its words, however its pattern branches: without one the form need not be tried."""
    assert has_word(re._parser.parse(form, re.IGNORECASE), words.split("|"))  # type: ignore[attr-defined]


def test_letters_that_a_pattern_takes_for_others_are_folded_as_it_does() -> None:
    letters = {letter for words, _ in PARTS for letter in words if letter != "|"}
    alike = re.compile(f"[{re.escape(''.join(sorted(letters)))}]", re.IGNORECASE)
    taken = alike.findall("".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000)))))
    assert [one for one in taken if not set(one.translate(privacy.ODD).lower()) & letters] == []


def has_word(pattern: Iterable[Any], words: Sequence[str], run: str = "") -> bool:
    """Whether each text that a parsed pattern matches, after the letters of `run`, has one of these words."""
    for kind, value in pattern:
        name = str(kind)
        run += chr(value).lower() if name == "LITERAL" else ""
        within = parts_of(name, value)
        if any(word in run for word in words) or (within and all(has_word(p, words, run) for p in within)):
            return True
        if name not in ("LITERAL", "AT", "ASSERT", "ASSERT_NOT"):
            run = ""
    return False


def parts_of(name: str, value: Any) -> list[Any]:
    """The patterns of which one matches wherever this part of a pattern does."""
    if name == "BRANCH":
        return list(value[1])
    if name == "SUBPATTERN":
        return [value[-1]]
    if name == "ASSERT":
        return [value[1]] if value[0] > 0 else []
    return [value[2]] if name in ("MAX_REPEAT", "MIN_REPEAT") and value[0] else []


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_words_stay(text: str) -> None:
    assert cleaned(text, 1000) == text


def test_files_are_hidden_by_any_part_of_their_path(tmp_path: Path) -> None:
    (tmp_path / ".memorydignore").write_text("\ufefffixtures/\n*.sqlite\nsrc/private\n")
    rules = Rules(str(tmp_path))
    for hidden in (
        "fixtures/a/b.json",
        "data/A.SQLITE",
        "src/private/x.py",
        ".env",
        "a/.ENV.local",
        "Secrets.yml",
        "./fixtures/x",
    ):
        assert rules.hides(hidden), hidden
    for shown in ("src/main.py", "environment.py", "private/x.py", "docs/fixtures.md"):
        assert not rules.hides(shown), shown
    for command in (
        "cat @.env",
        "x `cat .env`",
        "scp host:.env .",
        "cp {a,.env} b",
        "cat ${X:-c.sqlite}",
        "a=.env",
    ):
        assert rules.hides_in(command), command
    for everything in ("*", "/*", "**", "./*"):
        (tmp_path / ".memorydignore").write_text(everything)
        assert Rules(str(tmp_path)).everything
