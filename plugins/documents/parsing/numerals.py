"""Numbers as files write them in attributes, and as lists show them: `a`, `iv`, `07`, by Word's names of these."""

from __future__ import annotations

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"),
    (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


def numeral(number: int, kind: str) -> str:
    """The number; digits where the kind is not known, or has no sign for it."""
    small = kind.lower()
    if small.endswith("letter") and 0 < number <= 780:
        said = chr(96 + (number - 1) % 26 + 1) * ((number - 1) // 26 + 1)
    elif small.endswith("roman") and 0 < number < 4000:
        said = ""
        for value, letters in _ROMAN:
            said += letters * (number // value)
            number %= value
    else:
        return f"{number:02}" if kind == "decimalZero" else str(number)
    return said.upper() if kind.startswith("upper") else said


def whole(number: str | None, otherwise: int = 0) -> int:
    """The number that an attribute says; another where it says none."""
    return (
        int(number) if number and number.isascii() and number.isdecimal() and len(number) < 8 else otherwise
    )
