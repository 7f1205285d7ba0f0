"""Numbers as Office shows them: dates, times, durations, percents, prices, by the format that a cell has.

Where a format depends on the computer that shows it (the short date), a date is written as 2026-03-14.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache

BUILT_IN = {
    0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM",
    20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)",
    39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)", 41: "#,##0", 42: "#,##0", 43: "#,##0.00", 44: "#,##0.00",
    45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@",
}  # fmt: skip
"""By their numbers, which files use without saying what they are; those of East Asia are dates."""
MAX_DATE = 2_958_466
"""Days: the end of the year 9999."""

_SECTION = re.compile(r"""(?:"[^"]*"|\\.|\[[^\]]*\]|[^;"\\\[])*""")
_TOKEN = re.compile(
    r"""("[^"]*")|(\\.|_.|\*.)|\[(h+|m+|s+)\]|\[\$([^\]-]*)[^\]]*\]|(\[[^\]]*\])|(AM/PM|A/P)|(y+|e+|m+|d+|h+|s+|\.0+(?![#0?]))|(.)""",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"\[([<>=]+)(-?[\d.]+)\]")
_DIGITS = re.compile(r"[#0?][#0?,]*(?:\.[#0?]*)?|\.[#0?]+")
_SYSTEM = re.compile(r"\[\$-(?:f800|f400|x-sys\w+)\]", re.IGNORECASE)


def shown(value: str, code: str, *, since_1904: bool = False) -> str:
    """The number as its format shows it. What is no number stays, and so does one that does not fit its format."""
    try:
        number = Decimal(value)
    except InvalidOperation:
        return value
    if not number.is_finite() or abs(number.adjusted()) > 300:
        return value
    try:
        section, sign = _section(code, number)
        if section.strip().lower() in ("general", "@", "") or not section:
            return _general(number)
        if is_date(section):
            return _date(float(number), section, since_1904=since_1904)
        return _number(abs(number) if sign else number, section)
    except (ValueError, OverflowError, ArithmeticError, IndexError):
        return _general(number)


@lru_cache(1_000)
def is_date(section: str) -> bool:
    """Whether a format is one of a date, a time or a duration."""
    return any(found[3] or (found[7] or "-")[0].lower() in "ymdhs" for found in _TOKEN.finditer(section))


def _section(code: str, number: Decimal) -> tuple[str, bool]:
    """The part of a format that is for this number, and whether that part shows the sign itself."""
    if _SYSTEM.match(code):
        code = "h:mm:ss" if "40" in code[:8] else "yyyy-mm-dd"
    sections = [each for each in _SECTION.findall(code) if each] or ["General"]
    for each in sections:
        if (found := _CONDITION.search(each)) is not None:
            bound = Decimal(found[2])
            holds = {"<": number < bound, ">": number > bound, "=": number == bound, "<=": number <= bound}
            holds |= {">=": number >= bound, "<>": number != bound}
            if holds.get(found[1], False):
                return each, False
    if _CONDITION.search(sections[0]):
        return sections[-1], False
    if number < 0 and len(sections) > 1:
        return sections[1], True
    return (sections[2] if number == 0 and len(sections) > 2 else sections[0]), False


def _general(number: Decimal) -> str:
    text = (
        format(float(number), ".15G")
        if number != number.to_integral_value()
        else format(number.to_integral_value(), "f")
    )
    return text if len(text) < 22 else format(float(number), "G")


def _literal(found: re.Match[str]) -> str | None:
    """What a token stands for that is no number and no date; None: it is one."""
    if found[1]:
        return found[1][1:-1]
    if found[2]:
        return found[2][1] if found[2][0] == "\\" else " " if found[2][0] == "_" else ""
    if found[4] is not None:
        return found[4]
    return "" if found[5] else None


def _date(value: float, section: str, *, since_1904: bool) -> str:
    if not 0 <= value < MAX_DATE:
        raise ValueError("no date")
    parts = re.search(r"s+(\.0+)", section)
    unit = 10 ** (len(parts[1]) - 1) if parts else 1
    smallest = bool(re.search(r"s", re.sub(r'"[^"]*"|\\.', "", section), re.IGNORECASE))
    ticks = round(value * 86_400 * unit) if smallest else round(value * 86_400) * unit
    epoch = dt.datetime(1904, 1, 1) if since_1904 else dt.datetime(1899, 12, 30 if value >= 60 else 31)  # noqa: DTZ001 - of no zone
    when = epoch + dt.timedelta(seconds=ticks // unit)
    halves = re.search(r"AM/PM|A/P", section, re.IGNORECASE) is not None
    said, last = "", ""
    tokens = list(_TOKEN.finditer(section))
    for nth, found in enumerate(tokens):
        token = (found[7] or "").lower()
        if (literal := _literal(found)) is not None:
            said += literal
        elif found[3]:
            seconds = {"h": 3600, "m": 60, "s": 1}[found[3][0].lower()]
            said += str(ticks // unit // seconds).zfill(len(found[3]))
            last = found[3][0].lower()
        elif found[6]:
            said += ("AM" if when.hour < 12 else "PM")[: 2 if len(found[6]) > 3 else 1]
        elif token.startswith("."):
            said += "." + str(ticks % unit).zfill(len(token) - 1)
        elif token:
            after = next((t[7][0].lower() for t in tokens[nth + 1 :] if t[7] and t[7][0] != "."), "")
            minutes = token[0] == "m" and (last == "h" or after == "s")
            said += _field("n" * len(token) if minutes else token, when, halves=halves)
            last = token[0]
        else:
            said += found[8]
    return " ".join(said.split())


def _field(token: str, when: dt.datetime, *, halves: bool) -> str:
    kind, size = token[0], len(token)
    if kind in "ye":
        return f"{when.year % 100:02}" if size < 3 and kind == "y" else f"{when.year:04}"
    if kind == "m" and size > 2:
        return when.strftime("%B")[:1] if size == 5 else when.strftime("%b" if size == 3 else "%B")
    if kind == "d" and size > 2:
        return when.strftime("%a" if size == 3 else "%A")
    hour = (when.hour % 12 or 12) if halves else when.hour
    number = {"m": when.month, "d": when.day, "h": hour, "n": when.minute, "s": when.second}[kind]
    return str(number).zfill(2 if size > 1 else 1)


def _number(number: Decimal, section: str) -> str:
    bare = re.sub(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]', "", section)
    number *= 100 ** bare.count("%")
    if "/" in bare and "?" in bare.split("/")[1]:
        return _fraction(number, bare)
    digits = _DIGITS.search(bare)
    if digits is None:
        written = ""
    else:
        whole, _, decimals = digits[0].partition(".")
        scale = len(whole) - len(whole.rstrip(","))
        scale += len(bare[digits.end() :]) - len(bare[digits.end() :].lstrip(",")) if decimals else 0
        written = _written(number / 1000**scale, whole.rstrip(","), decimals, re.search(r"E[+-]0+", bare))
    # Each digit has its own spot where literals stand between them, as in the number of a telephone.
    spots = (
        len(re.findall(r"[#0?]", bare))
        if re.fullmatch(r"[^#0?.,E]*[#0?]+[^#0?.,E]+[#0?][^.,E]*", bare)
        else 0
    )
    written = written.zfill(spots) if spots else written
    said, done = "", False
    for found in _TOKEN.finditer(section):
        literal = _literal(found)
        piece = found[8] or found[7] or ""
        if literal is not None:
            said += literal
        elif spots and piece in "#0?":
            said += written[: len(written) - spots + 1]
            written, spots = written[len(written) - spots + 1 :], spots - 1
        elif piece and piece[0] in "#0?.,":
            said += written if not done else ""
            done = True
        elif piece.upper().startswith("E") or (done and piece in "+-" and "E" in bare.upper()):
            continue
        else:
            said += piece
    said = " ".join(said.split())
    return said if number >= 0 or said.startswith("-") else f"-{said}"


def _written(number: Decimal, whole: str, decimals: str, exponent: re.Match[str] | None) -> str:
    number = abs(number)
    power = ""
    if exponent is not None:
        shift = number.adjusted() if number else 0
        number = number.scaleb(-shift)
        power = f"E{'-' if shift < 0 else '+'}{abs(shift):0{len(exponent[0]) - 2}}"
    rounded = number.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP)
    text = format(rounded, ",f" if "," in whole else "f")
    left, _, right = text.partition(".")
    least = decimals.rstrip("#?").count("0") + decimals.rstrip("#?").count("#")
    while len(right) > least and right.endswith("0"):
        right = right[:-1]
    left = left.zfill(whole.replace(",", "").count("0")) if left != "0" or "0" in whole else ""
    return left + (f".{right}" if right or (decimals == "" and "." in whole) else "") + power


def _fraction(number: Decimal, bare: str) -> str:
    above, _, below = bare.partition("/")
    size = below.count("?") or 1
    whole = int(number) if "#" in above or "0" in above else 0
    rest = Fraction(number - whole).limit_denominator(10**size - 1)
    said = f"{whole} " if whole else ""
    return f"{said}{abs(rest) if whole else rest}".strip() if rest else str(whole)
