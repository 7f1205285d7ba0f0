"""One small plot: lines, or bars that stand on each other, over equal steps of time.

Promise: it is said in words, too (`desc`). Each series has its name and its last value below. None is told by its colour alone:
lines have dashes, parts of bars stand in the order of the names, the first at the bottom. Values that are no numbers are gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, log10
from xml.etree.ElementTree import Element

from daemon.plots.svg import drawing, put, write

COLOURS = ("#3b82c4", "#c2690b", "#2e8b57", "#9a5fc4", "#d1495b", "#7d7a2c", "#3d8a92")
"""Each has a contrast of 3 to 1 or more to white and to black."""
DASHES = ("", "5 3", "1.5 2.5", "8 3 2 3", "3 2", "10 4", "2 4")
GRID = {"stroke": "#808080", "stroke-opacity": "0.4", "stroke-width": "0.6"}
LEFT, RIGHT, TOP, AXIS = 48, 8, 24, 15
LEGEND_LINE = 15
LETTER = 5.6
"""About the width of a character at font size 10."""
WIDEST_BAR = 24.0
EMPTY_HEIGHT = 42.0


def round_up(value: float) -> float:
    """The next of 1, 2, 4, 10, 20 ... from there, whose halves are round, too; of 0: 2."""
    if value <= 0 or not isfinite(value):
        return 2.0
    power: float = 10.0 ** int(log10(value) // 1)
    return next((step * power for step in (1, 2, 4, 10) if step * power >= value * (1 - 1e-9)), 10 * power)


@dataclass(frozen=True, slots=True)
class Series:
    """What is drawn as one line, or as one part of each bar; None: no value."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Frame:
    """The rest of a plot: what it is called, what its ends are called, how a value is written, and how big it is.

    Where the names need more than one row, it is higher. `end_of_axis`: the end of the axis, given the highest value.
    """

    title: str
    start: str
    end: str
    unit: Callable[[float], str]
    width: float = 300
    height: float = 130
    end_of_axis: Callable[[float], float] = round_up


def draw_lines(frame: Frame, series: Sequence[Series]) -> Element:
    """A line for each series."""
    highest = frame.end_of_axis(max(_numbers(series), default=0.0))
    made, across, down = _frame(frame, series, highest)
    for nth, one in enumerate(series):
        look = {"class_": f"line line-{nth}", "stroke": COLOURS[nth % len(COLOURS)]}
        for run in _runs(one.values):
            points = [(across(step, len(one.values)), down(value, highest)) for step, value in run]
            if len(points) == 1:
                put(
                    made,
                    "circle",
                    cx=points[0][0],
                    cy=points[0][1],
                    r=2,
                    fill=look["stroke"],
                    class_=look["class_"],
                )
                continue
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            put(
                made,
                "polyline",
                points=path,
                fill="none",
                stroke_width=1.5,
                stroke_linejoin="round",
                **look,
                **_dashes(nth),
            )
    return made


def draw_bars(frame: Frame, series: Sequence[Series]) -> Element:
    """A bar for each step, with a part for each series: the first one stands at the bottom."""
    steps = max((len(one.values) for one in series), default=0)
    sums = [sum(_number(one.values, step) for one in series) for step in range(steps)]
    highest = frame.end_of_axis(max(sums, default=0.0))
    made, _, down = _frame(frame, series, highest, bars=True)
    wide = (frame.width - LEFT - RIGHT) / max(1, steps)
    bar = min(wide * 0.8, WIDEST_BAR)
    for step in range(steps):
        below = 0.0
        for nth, one in enumerate(series):
            if value := _number(one.values, step):
                top, bottom = down(below + value, highest), down(below, highest)
                put(
                    made,
                    "rect",
                    x=LEFT + (step + 0.5) * wide - bar / 2,
                    y=top,
                    width=bar,
                    height=bottom - top,
                    fill=COLOURS[nth % len(COLOURS)],
                    class_=f"bar bar-{nth}",
                )
                below += value
    return made


def draw_nothing(frame: Frame, reason: str) -> Element:
    """Where a plot would be: its title, and why there is none."""
    made = drawing(frame.width, EMPTY_HEIGHT, frame.title, reason)
    write(made, 0, 13, frame.title, font_size=12, font_weight="bold")
    write(made, 0, 32, reason)
    return made


def _frame(
    frame: Frame, series: Sequence[Series], highest: float, *, bars: bool = False
) -> tuple[Element, Callable[[int, int], float], Callable[[float, float], float]]:
    """All but the series; and where a step and a value are."""
    rows = _legend(frame, series)
    bottom = frame.height - AXIS - LEGEND_LINE
    made = drawing(
        frame.width, bottom + AXIS + LEGEND_LINE * len(rows), frame.title, _described(frame, series)
    )
    write(made, 0, 13, frame.title, font_size=12, font_weight="bold")
    for value in (0.0, highest / 2, highest):
        y = bottom - value / highest * (bottom - TOP)
        put(made, "line", x1=LEFT, y1=y, x2=frame.width - RIGHT, y2=y, class_="grid", **GRID)
        write(made, LEFT - 5, y + 3.5, frame.unit(value), text_anchor="end", font_size=10)
    write(made, LEFT, bottom + 12, frame.start, font_size=10)
    write(made, frame.width - RIGHT, bottom + 12, frame.end, text_anchor="end", font_size=10)
    for line, names in enumerate(rows):
        x, y = float(LEFT), bottom + AXIS + LEGEND_LINE * (line + 0.75)
        for nth, name in names:
            colour = COLOURS[nth % len(COLOURS)]
            put(
                made,
                "line",
                x1=x,
                y1=y - 3.5,
                x2=x + 16,
                y2=y - 3.5,
                stroke=colour,
                stroke_width=8 if bars else 2,
                class_=f"line line-{nth}",
                **({} if bars else _dashes(nth)),
            )
            write(made, x + 20, y, name, font_size=10)
            x += _wide(name)

    def across(step: int, steps: int) -> float:
        return LEFT + (step + 0.5) / steps * (frame.width - LEFT - RIGHT)

    def down(value: float, highest: float) -> float:
        return bottom - min(max(value, 0.0) / highest, 1.0) * (bottom - TOP)

    return made, across, down


def _legend(frame: Frame, series: Sequence[Series]) -> list[list[tuple[int, str]]]:
    """Each name with its last value, in as many rows as they need."""
    rows: list[list[tuple[int, str]]] = [[]]
    used = 0.0
    for nth, one in enumerate(series):
        last = next((v for v in reversed(one.values) if v is not None and isfinite(v)), None)
        name = _short(one.name, int((frame.width - LEFT) / LETTER) - 16)
        name = name if last is None else f"{name} {frame.unit(last)}"
        if rows[-1] and used + _wide(name) > frame.width - LEFT:
            rows.append([])
            used = 0.0
        rows[-1].append((nth, name))
        used += _wide(name)
    return rows if series else []


def _described(frame: Frame, series: Sequence[Series]) -> str:
    """The plot in words."""
    said = [f"From {frame.start} to {frame.end}."]
    for one in series:
        values = _numbers([one])
        if values:
            said.append(f"{one.name}: maximum {frame.unit(max(values))}, last {frame.unit(values[-1])}.")
        else:
            said.append(f"{one.name}: no values.")
    return " ".join(said)


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Values without a gap between them, each with the number of its step."""
    runs: list[list[tuple[int, float]]] = [[]]
    for step, value in enumerate(values):
        if value is not None and isfinite(value):
            runs[-1].append((step, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _numbers(series: Sequence[Series]) -> list[float]:
    return [value for one in series for value in one.values if value is not None and isfinite(value)]


def _number(values: Sequence[float | None], step: int) -> float:
    value = values[step] if step < len(values) else None
    return value if value is not None and isfinite(value) and value > 0 else 0.0


def _wide(name: str) -> float:
    return 28 + LETTER * len(name)


def _short(name: str, letters: int) -> str:
    return name if len(name) <= max(4, letters) else name[: max(4, letters) - 1] + "…"


def _dashes(nth: int) -> dict[str, str]:
    dashes = DASHES[nth % len(DASHES)]
    return {"stroke_dasharray": dashes} if dashes else {}
