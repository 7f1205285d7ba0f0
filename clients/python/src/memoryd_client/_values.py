"""Checks of arguments before a call, so that an error names the argument without quoting it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, TypeVar, get_args
from uuid import UUID

from memoryd_client._errors import Refused
from memoryd_client._ids import id_of
from memoryd_client._options import OPTIONS
from memoryd_client._types import Role

T = TypeVar("T")

LONGEST_TEXT = 10_000_000
DEEPEST = 64
"""Levels of metadata."""
_SEEN = re.compile(
    "[^\\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def plain(name: str, text: object, *, longest: int = LONGEST_TEXT, blank: bool = False) -> str:
    """A text that the database can store. `name` is the argument's, for the error."""
    if not isinstance(text, str):
        raise Refused(f"{name} is no text: give a str.")
    if len(text) > longest:
        raise Refused(
            f"{name} has {len(text):,} characters; at most {longest:,} are allowed.",
            hint="Divide it, or store it as a document.",
        )
    if "\0" in text:
        raise Refused(
            f"{name} has the character NUL (U+0000), which Postgres cannot store.", hint="Remove it first."
        )
    if not is_unicode(text):
        raise Refused(
            f"{name} has a lone surrogate (U+D800 to U+DFFF), so it is no Unicode text.",
            hint="Decode it with errors='replace', or remove it.",
        )
    if not blank and is_blank(text):
        raise Refused(f"{name} is blank.", hint="Give a text with more than white space.")
    return text


def is_blank(text: str) -> bool:
    """Whether it has nothing that is seen: the database refuses such a text."""
    return _SEEN.search(text) is None


def is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8. The error of encode() would carry the text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(text: str) -> str:
    """The text with U+FFFD in place of what cannot be stored."""
    text = text.replace("\0", "\ufffd")
    return text if is_unicode(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def one_of(name: str, value: object, allowed: Any) -> str:
    """One of the values of a Literal."""
    if value not in get_args(allowed) or not isinstance(value, str):
        raise Refused(f"{name} is not an allowed value.", hint=f"Allowed: {', '.join(get_args(allowed))}.")
    return value


def list_of(name: str, values: object, check: Callable[[object], str]) -> list[str] | None:
    """A list of strings, each checked, or None."""
    if values is None:
        return None
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise Refused(f"{name} is no list.", hint="Give a list of strings.")
    return [check(value) for value in values]


def number(name: str, value: object, least: int, most: int = 2**31 - 1) -> int:
    """A whole number in a range."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Refused(f"{name} is no whole number from {least:,} to {most:,}.")
    return value


def seconds(name: str, value: object, least: float, most: float, unit: str = "seconds") -> float:
    """A time in seconds, or in another `unit`, in a range."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
        raise Refused(f"{name} is no number of {unit} from {least:g} to {most:,.0f}.")
    return float(value)


def share(name: str, value: object) -> float | None:
    """A number from 0 to 1, or None."""
    if value is None:
        return None
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise Refused(f"{name} is no number from 0 to 1.")
    return float(value)


def flag(name: str, value: object) -> bool | None:
    """True or false, or None."""
    if value is not None and not isinstance(value, bool):
        raise Refused(f"{name} is neither true nor false.")
    return value


def moment(name: str, value: object) -> datetime | None:
    """A time with a time zone, or None."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise Refused(f"{name} is no time.", hint="Give a datetime with a time zone.")
    if value.tzinfo is None or value.utcoffset() is None:
        raise Refused(f"{name} has no time zone.", hint="Such as datetime.now(timezone.utc).")
    return value


def mapping(name: str, value: object) -> dict[Any, Any]:
    """A mapping as a dict; None is an empty one."""
    if value is not None and not isinstance(value, Mapping):
        raise Refused(f"{name} is no mapping.", hint='Give a dict, such as {"channel": "web"}.')
    return dict(value or {})


def in_json(name: str, value: object) -> str:
    """A mapping as JSON that the database can store."""
    given = mapping(name, value)
    try:
        _check(name, given, DEEPEST)
        text: str | None = json.dumps(given, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        text = None  # raised below, so that no error that may quote a value hangs on ours
    if text is None:
        raise Refused(
            f"{name} cannot be written as JSON.",
            hint="It may have dicts with string keys, lists, strings, finite numbers, booleans and None.",
        )
    return text


def _check(name: str, value: object, levels: int) -> None:
    if levels == 0:
        raise Refused(f"{name} is more than {DEEPEST} levels deep.")
    if isinstance(value, str):
        plain(f"A string in {name}", value, blank=True)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError
            _check(name, key, levels)
            _check(name, inner, levels - 1)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check(name, inner, levels - 1)


def ids_of(ids: Iterable[UUID | str] | UUID | str) -> list[UUID]:
    """UUIDs, each once, in their order. Any other string is refused: rows have no names."""
    found: dict[UUID, None] = {}
    several = (ids,) if isinstance(ids, (UUID, str)) else ids
    if not isinstance(several, Iterable):
        raise Refused("ids is no list of ids.", hint="Give the id that remember returned, or a list of them.")
    for each in several:
        if isinstance(each, str):
            try:
                made: UUID | None = UUID(each)
            except ValueError:
                made = None
            if made is None:
                raise Refused("An id is no UUID.", hint="Give the id that remember or recall returned.")
            found[made] = None
        else:
            found[id_of(each)] = None
    return list(found)


def options(given: Mapping[str, object], allowed: Iterable[str]) -> str:
    """Options of recall() or build_context() as JSON, each checked by its kind, without those that are None."""
    if unknown := given.keys() - set(allowed):
        raise TypeError(f"There is no option {min(unknown)}: there are {', '.join(allowed)}.")
    left = {n: _option(n, value, *OPTIONS[n]) for n, value in given.items() if value is not None}
    return json.dumps({n: v.isoformat() if isinstance(v, datetime) else v for n, v in left.items()})


def _option(name: str, value: object, kind: str, lowest: int | None, highest: int | None) -> object:
    if kind == "whole":
        return number(name, value, lowest or 0, 2**31 - 1 if highest is None else highest)
    if kind == "uuid":
        return str(id_of(value))  # type: ignore[arg-type]
    if kind == "roles":
        return list_of(name, value, lambda role: one_of(name, role, Role))
    if kind == "names":
        return list_of(name, value, lambda each: plain(f"A name in {name}", each))
    check: Callable[[str, object], object] = {"number": share, "flag": flag, "time": moment}.get(kind, plain)
    return check(name, value)


def made(kind: type[T], row: Any) -> T:
    """A row as what a call returns: each field is the column of its name."""
    return kind(**{field.name: _made(field.name, row[field.name]) for field in fields(kind)})  # type: ignore[arg-type]


def _made(name: str, value: Any) -> Any:
    if name == "metadata":
        return json.loads(value or "{}")
    if isinstance(value, UUID):
        return id_of(value)
    return tuple(value) if isinstance(value, list) else value


def strings(given: Iterable[object]) -> list[str]:
    """The arguments of a statement that are texts."""
    return [each for each in given if isinstance(each, str)]
