"""Reads forms, and the numbers, ids and times in queries: a bad value gives a sentence, never a crash."""

from __future__ import annotations

import asyncio
import re
from binascii import a2b_qp
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from starlette.datastructures import QueryParams
from starlette.requests import Request

from daemon.ids import id_of
from memory.text import is_blank

LARGEST = 32 * 1024 * 1024
"""Bytes of a form: the longest text that a table takes has ten million characters."""
LARGEST_SIGN_IN = 4096
MOST_FIELDS = 1000
SAFE = ("GET", "HEAD")
"""Methods that send no form."""
UNENCODED = re.compile(rb"%(?![0-9A-Fa-f]{2})")
DAY = len("2026-11-26")
SECONDS = 10.0
"""To receive a sign-in, and the next part of any other form."""


class TooLongError(ValueError):
    """A form is larger than the largest text that can be stored, or than a sign-in."""


@dataclass(frozen=True, slots=True)
class Option:
    """What a field takes, and what people call it where that is another."""

    value: str
    label: str


class BadValueError(ValueError):
    """An invalid value in a query or form; the message says which values are valid.

    `field`: its name, where it has one; `like`: values that may be meant.
    """

    def __init__(self, sentence: str, *, field: str | None = None, like: Sequence[Option] = ()) -> None:
        super().__init__(sentence)
        self.field, self.like = field, like


async def read_form(request: Request, *, largest: int = LARGEST) -> QueryParams:
    """The fields of a form, with Unix line breaks. Raises ValueError with a sentence, or TimeoutError."""
    body = bytearray()
    async with asyncio.timeout(SECONDS) as patience:
        async for part in request.stream():
            body += part
            if len(body) > largest:
                raise TooLongError(f"A form may have {largest // 1024:,} kB here.")
            if largest > LARGEST_SIGN_IN:
                patience.reschedule(asyncio.get_running_loop().time() + SECONDS)
    # Other pages are answered meanwhile.
    return await asyncio.to_thread(_fields, bytes(body))


def _fields(body: bytes) -> QueryParams:
    if body.isascii() and body.count(b"&") < MOST_FIELDS and not UNENCODED.search(body):
        pairs = [pair.partition(b"=") for pair in body.split(b"&") if pair]
        with suppress(UnicodeDecodeError):
            return QueryParams([(_decoded(name), _decoded(value)) for name, _, value in pairs])
    raise ValueError("This form cannot be read: its text is not UTF-8, or it has too many fields.")


def _decoded(text: bytes) -> str:
    # As quoted-printable text, which C decodes: urllib takes 7 s for the largest form, and stops all threads for 3 of them.
    quoted = text.replace(b"+", b" ").replace(b"=", b"=3D").replace(b"%", b"=")
    return a2b_qp(quoted).decode().replace("\r\n", "\n").replace("\r", "\n")


def uuid_in(values: Mapping[str, str], name: str) -> UUID | None:
    """The id in a field; None where it is empty. Raises BadValueError."""
    given = values.get(name, "").strip()
    if not given:
        return None
    try:
        return UUID(given)
    except ValueError:
        raise BadValueError(f"{name} is no id: write 8-4-4-4-12 hexadecimal digits.", field=name) from None


def id_in(values: Mapping[str, str], name: str) -> UUID | None:
    """The id that a field has, or names; None where it is empty. Raises BadValueError."""
    given = values.get(name, "").strip()
    try:
        return id_of(given) if given else None
    except ValueError as error:
        raise BadValueError(str(error), field=name) from None


def time_in(values: Mapping[str, str], name: str, *, end: bool = False) -> datetime | None:
    """The time in a field, of UTC unless it names an offset; None where it is empty. Of a day its beginning, or its `end`.

    Raises BadValueError.
    """
    given = values.get(name, "").strip()
    if not given:
        return None
    try:
        time = datetime.fromisoformat(given)
        if end and len(given) == DAY:
            time += min(timedelta(days=1), datetime.max - time)  # noqa: DTZ901 - a day without a zone
        # In UTC its year may be out of range.
        return time.astimezone(UTC) if time.tzinfo is not None else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise BadValueError(f"{name} is no time: write 2026-11-26 or 2026-11-26T14:30.", field=name) from None


def number_in(values: Mapping[str, str], name: str, default: float, *, least: float, most: float) -> float:
    """The number in a field; `default` where it is empty. Raises BadValueError."""
    given = values.get(name, "").strip()
    if not given:
        return default
    try:
        number = float(given)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise BadValueError(f"{name} is from {least:g} to {most:g}.", field=name)
    return number


def whole_in(values: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    """The whole number in a field; `default` where it is empty. Raises BadValueError."""
    number = number_in(values, name, default, least=least, most=most)
    if number != int(number):
        raise BadValueError(f"{name} is a whole number from {least} to {most}.", field=name)
    return int(number)


def choice_in(values: Mapping[str, str], name: str, options: Sequence[str]) -> str | None:
    """One of the options; None where the field is empty. Raises BadValueError."""
    given = text_in(values, name)
    if given is not None and given not in options:
        raise BadValueError(f"{name} is one of {', '.join(options)}.", field=name)
    return given


def action_in(form: Mapping[str, str], *options: str) -> str:
    """What the button that was pressed does. Raises BadValueError."""
    if (done := form.get("do")) not in options:
        raise BadValueError(f"This form does not say what to do: do is one of {', '.join(options)}.")
    return str(done)


def text_in(values: Mapping[str, str], name: str, *, longest: int = 10_000) -> str | None:
    """The text in a field; None where it is blank. Raises BadValueError if Postgres cannot store it, or it is too long."""
    given = values.get(name, "").strip()
    if "\0" in given:
        raise BadValueError(f"{name} has a NUL character, which Postgres cannot store.", field=name)
    if len(given) > longest:
        raise BadValueError(f"{name} has {len(given)} characters; {longest} are possible.", field=name)
    return None if is_blank(given) else given
