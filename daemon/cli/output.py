"""How commands print: tables for a person at a terminal, plain aligned text for a pipe, JSON for a script.

Promise: what agents wrote is shown as text, never obeyed: neither as terminal escapes nor as markup.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

import typer

from memory.text import one_line

if TYPE_CHECKING:
    from rich.progress import Progress

PLAIN_LENGTH = 200
"""Characters of a cell: a pipe has no edge, but a line should still be a line."""
WHOLE_LENGTH = 2000

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def megabytes(count: float) -> str:
    """A number of bytes, as people read it."""
    return f"{count / 1e6:,.1f} MB"


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None, whole: bool = False
) -> None:
    """Prints rows under headings. `>` at the end of a heading aligns its column to the right.

    The last column is cut to fit, or with `whole` shown to its end.
    """
    heads = [column.rstrip(">") for column in columns]
    right = [column.endswith(">") for column in columns]
    cells = [[one_line(cell, WHOLE_LENGTH if whole else PLAIN_LENGTH) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(heads, cells, right=right, title=title, whole=whole)
        return
    if title is not None:
        typer.echo(title)
    widths = [max(len(line[index]) for line in (heads, *cells)) for index in range(len(heads))]
    for line in (heads, *cells):
        padded = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ]
        typer.echo("  ".join(padded).rstrip())


def _rich_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[bool],
    title: str | None,
    whole: bool,
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if title is not None:
        console.print(Text(title, style="bold"))
    widths = [max(len(line[index]) for line in (heads, *rows)) for index in range(len(heads))]
    tight = sum(widths) + 3 * len(widths) > console.width
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim", expand=tight)
    for index, head in enumerate(heads):
        # Where the terminal is narrow, only the last one gives way.
        gives_way = index == len(heads) - 1
        shown.add_column(
            Text(head),
            justify="right" if right[index] else "left",
            no_wrap=not (gives_way and whole),
            overflow="ellipsis",
            width=None if gives_way else widths[index],
            ratio=1 if gives_way and tight else None,
        )
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    console.print(shown)


def as_json(value: object) -> None:
    """Prints a value as indented JSON: rows and dataclasses as objects; times, ids and paths as strings."""
    typer.echo(json.dumps(value, default=_plain, ensure_ascii=False, indent=2))


def _plain(value: Any) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return dict(value.items()) if hasattr(value, "items") else str(value)


def say(line: str = "") -> None:
    """Prints a line of the answer."""
    typer.echo(line)


def remark(line: str) -> None:
    """Prints a line about the answer, on stderr."""
    typer.secho(line, err=True, fg="yellow")


def age(seconds: float | None) -> str:
    """A duration as a person would say it: `45 s`, `12 min`, `3 h`, `2 d`; `-` for None."""
    if seconds is None:
        return "-"
    for length, unit in _UNITS:
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, seconds):.0f} s" if seconds >= 10 else f"{max(0.0, seconds):.1f} s"


def number(count: int, noun: str, plural: str | None = None) -> str:
    """`1 job`, `1,200 jobs`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


@contextmanager
def progress(*, quiet: bool) -> Iterator[Progress]:
    """A bar on stderr while a command goes through many things, gone at the end; with `quiet` nothing is shown."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as shown:
        yield shown
