"""Dates that are said relative to the day of speaking ("tomorrow", "next Friday", "two weeks ago") as calendar dates.

English. A weekday without more is the next one, or the last one where the sentence tells of the past; "next Friday" is the
Friday of the following week, counted from Monday. What is said of every week ("on Mondays", "every Friday") stays as it is.
Days are those of the time zone of `said_at`.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip
NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "a couple of": 2, "a few": 3,
}  # fmt: skip

_DAY = "(?P<weekday>" + "|".join(WEEKDAYS) + ")"
_MONTH = "(?:" + "|".join(f"{m[:3]}(?:{m[3:]})?" if len(m) > 3 else m for m in MONTHS) + r"|sept)\b\.?"
_COUNT = r"(?P<count>\d{1,3}|a couple of|a few|" + "|".join(n for n in NUMBERS if " " not in n) + ")"
_DAY_OF_MONTH = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?:,? (?P<year>(?:19|20)\d\d))?"
_PART = r"(?P<part> (?:morning|afternoon|evening|night))?"


@dataclass(frozen=True, slots=True)
class Dated:
    """A text whose dates are calendar dates, and the last day that it names (null: none)."""

    text: str
    day: date | None


def low(text: str) -> str:
    """In lower case, as patterns that ignore case do: they take a long s, a dotted capital I and a dotless i for s and i."""
    return text.casefold().replace("\u0307", "").replace("\u0131", "i")


def day_name(day: date) -> str:
    """As in: Monday, 16 November 2026."""
    return f"{WEEKDAYS[day.weekday()].title()}, {day.day} {MONTHS[day.month - 1].title()} {day.year}"


def _month_name(year: int, month: int) -> str:
    return f"{MONTHS[month - 1].title()} {year}"


def _months_later(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _month_of(name: str) -> int:
    return next(i for i, m in enumerate(MONTHS, 1) if m.startswith(low(name).rstrip(".")[:3]))


def _relative_day(match: re.Match[str], today: date, _past: bool) -> tuple[str, date]:
    word = low(match["word"])
    offset = {"today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1, "day after tomorrow": 2}.get(word, 2)
    day = today + timedelta(days=offset)
    part = match["part"] or (" evening" if word == "tonight" else "")
    return f"on {day_name(day)}{' in the' + part if part else ''}", day


def _weekday(match: re.Match[str], today: date, past: bool) -> tuple[str, date]:
    wanted = WEEKDAYS.index(low(match["weekday"]))
    which = low(match["which"] or "")
    monday = today - timedelta(days=today.weekday())
    if which == "next":
        day = monday + timedelta(days=7 + wanted)
    elif which == "last" or (past and which != "this"):
        day = today - timedelta(days=(today.weekday() - wanted - 1) % 7 + 1)
    else:
        day = today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1)
    return f"on {day_name(day)}{' in the' + match['part'] if match['part'] else ''}", day


def _named_span(match: re.Match[str], today: date, _past: bool) -> tuple[str, date]:
    step = {"next": 1, "last": -1, "this": 0}[low(match["which"])]
    span = low(match["span"])
    monday = today - timedelta(days=today.weekday()) + timedelta(days=7 * step)
    if span == "week":
        return f"in the week of {day_name(monday)}", monday + timedelta(days=6)
    if span == "weekend":
        return f"on the weekend of {day_name(monday + timedelta(days=5))}", monday + timedelta(days=6)
    if span == "month":
        day = _months_later(today, step)
        return f"in {_month_name(day.year, day.month)}", day.replace(day=monthrange(day.year, day.month)[1])
    return f"in {today.year + step}", date(today.year + step, 12, 31)


def _count(text: str) -> int:
    return int(text) if text.isdigit() else NUMBERS[low(text)]


def _shifted(today: date, count: int, unit: str) -> tuple[str, date]:
    if unit.startswith("year"):
        day = _months_later(today, 12 * count)
        return f"in {day.year}", day
    if unit.startswith("month"):
        day = _months_later(today, count)
        return f"in {_month_name(day.year, day.month)}", day
    day = today + timedelta(days=count * (7 if unit.startswith("week") else 1))
    return f"on {day_name(day)}" if unit.startswith("day") else f"around {day_name(day)}", day


def _ago(match: re.Match[str], today: date, _past: bool) -> tuple[str, date]:
    return _shifted(today, -_count(match["count"]), low(match["unit"]))


def _ahead(match: re.Match[str], today: date, _past: bool) -> tuple[str, date]:
    return _shifted(today, _count(match["count"]), low(match["unit"]))


def _day_of_month(match: re.Match[str], today: date, past: bool) -> tuple[str, date]:
    month, number = _month_of(match["month"]), int(match["day"])
    if match["year"]:
        day = date(int(match["year"]), month, number)
    else:
        # A leap day that this year does not have is an error like any other day that does not exist.
        day = date(today.year, month, number)
        if day < today and not past:
            day = date(today.year + 1, month, number)
        elif day > today and past:
            day = date(today.year - 1, month, number)
    return f"on {day_name(day)}", day


def _next_such_day(match: re.Match[str], today: date, past: bool) -> tuple[str, date]:
    number = int(match["day"])
    step = -1 if past else 1
    for months in range(3):
        month = _months_later(today.replace(day=1), step * months)
        if number <= monthrange(month.year, month.month)[1]:
            day = month.replace(day=number)
            if day == today or (day < today) == past:
                return f"on {day_name(day)}", day
    raise ValueError(number)


def _month(match: re.Match[str], today: date, past: bool) -> tuple[str, date]:
    month = _month_of(match["month"])
    year = int(match["year"]) if match["year"] else today.year
    if not match["year"] and month < today.month and not past:
        year += 1
    elif not match["year"] and month > today.month and past:
        year -= 1
    return f"{match['lead'].lower()} {_month_name(year, month)}", date(
        year, month, monthrange(year, month)[1]
    )


def _iso(match: re.Match[str], _today: date, _past: bool) -> tuple[str, date]:
    day = date.fromisoformat(match["iso"])
    return f"on {day_name(day)}", day


def _weekday_ahead(match: re.Match[str], today: date, _past: bool) -> tuple[str, date]:
    wanted = WEEKDAYS.index(low(match["weekday"]))
    far = today + timedelta(days=_count(match["count"]) * (7 if low(match["unit"]).startswith("week") else 1))
    # Of the week that is meant, or the nearest to the day that is meant.
    day = far - timedelta(days=far.weekday()) + timedelta(days=wanted)
    return f"on {day_name(day)}", day


_Resolver = Callable[[re.Match[str], date, bool], tuple[str, date]]
_FORMS: tuple[tuple[str, _Resolver], ...] = (
    (rf"(?:on )?{_DAY} in {_COUNT} (?P<unit>days?|weeks?)(?:'? time)?", _weekday_ahead),
    (rf"in {_COUNT} (?P<unit>days?|weeks?),? on {_DAY}", _weekday_ahead),
    (r"(?:on )?(?P<iso>(?:19|20)\d\d-[01]\d-[0-3]\d)", _iso),
    (rf"(?:the )?(?P<word>day after tomorrow|today|tonight|tomorrow|yesterday){_PART}", _relative_day),
    (rf"(?:on )?(?:the )?{_DAY_OF_MONTH} (?:of )?(?P<month>{_MONTH}){_YEAR}", _day_of_month),
    (rf"(?:on )?(?P<month>{_MONTH}) (?:the )?{_DAY_OF_MONTH}{_YEAR}(?! ?(?:am|pm|:))", _day_of_month),
    (
        r"(?:on )?the (?P<day>[0-3]?\d)(?:st|nd|rd|th)(?! (?:of|time|floor|birthday|century|grade|of)\b)",
        _next_such_day,
    ),
    (rf"(?<!every )(?:on )?(?:(?P<which>this|next|last|coming) )?{_DAY}{_PART}", _weekday),
    (r"(?:the )?(?P<which>next|last|this) (?P<span>weekend|week|month|year)", _named_span),
    (rf"in {_COUNT} (?P<unit>days?|weeks?|months?|years?)(?:'? time)?", _ahead),
    (rf"{_COUNT} (?P<unit>days?|weeks?|months?|years?) ago", _ago),
    (rf"(?P<lead>in|by|until|since|from) (?P<month>{_MONTH}){_YEAR}", _month),
)
_COMPILED = tuple((re.compile(rf"\b{form}\b", re.IGNORECASE), resolve) for form, resolve in _FORMS)


def resolve_dates(text: str, today: date, *, past: bool = False) -> Dated:
    """The text with its first dates of each form made absolute. `past`: the sentence tells of what has been."""
    found: list[tuple[int, int, str, date]] = []
    for form, resolve in _COMPILED:
        for match in form.finditer(text):
            if any(match.start() < end and start < match.end() for start, end, _, _ in found):
                continue
            try:
                words, day = resolve(match, today, past)
            except (ValueError, OverflowError):
                continue  # no such day
            found.append((match.start(), match.end(), words, day))
    for start, end, words, _ in sorted(found, reverse=True):
        text = text[:start] + words + text[end:]
    return Dated(text, max((day for *_, day in found), default=None))


def names_a_month(text: str) -> bool:
    """Whether the text names a month by its name."""
    return re.search(rf"\b{_MONTH}", text, re.IGNORECASE) is not None


def names_a_date(text: str) -> bool:
    """Whether the text names a day, a week, a month or a year."""
    return any(form.search(text) for form, _ in _COMPILED)
