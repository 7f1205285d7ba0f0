"""The languages of the pages: English is in the templates. Each other one has a folder, with a file for each page that maps
English to it.

The browser says which one (Accept-Language), unless the reader has chosen one for the session.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path

from starlette.requests import Request

from daemon.web.sentences import Sentences

LANGUAGES = {"en": "English", "de": "Deutsch"}
FOLDER = Path(__file__).parent / "languages"


@cache
def catalog(language: str) -> Mapping[str, str | list[str]]:
    """English to this language; two words where there is a plural."""
    if language == "en":
        return {}
    words: dict[str, str | list[str]] = {}
    for file in sorted((FOLDER / language).glob("*.json")):
        words |= json.loads(file.read_text("utf-8"))
    return words


def translated(language: str) -> tuple[Callable[[str], str], Callable[[str, str, int], str]]:
    """gettext and ngettext of a language. What has no translation stays English."""
    words = catalog(language)

    def single(english: str) -> str:
        found = words.get(english, english)
        return found if isinstance(found, str) else found[0]

    def plural(one: str, many: str, count: int) -> str:
        found = words.get(one, [one, many])
        forms = [found, found] if isinstance(found, str) else found
        return forms[0] if count == 1 else forms[1]

    return single, plural


@cache
def sentence_in(language: str) -> Callable[[object], str]:
    """Tells a sentence of the code, with the values in it, in a language."""
    sentences = Sentences(catalog(language))
    # The same ones are shown again and again: what the doctor says, every five seconds.
    tell = lru_cache(maxsize=500)(lambda text: sentences.tell(text).text)
    return lambda text: tell(str(text))


def language_of(request: Request) -> str:
    """The language of a request."""
    session = getattr(request.state, "session", None)
    if session is not None and session.language in LANGUAGES:
        return str(session.language)
    for part in request.headers.get("accept-language", "").split(","):
        name = part.partition(";")[0].strip().lower().partition("-")[0]
        if name in LANGUAGES:
            return name
    return "en"
