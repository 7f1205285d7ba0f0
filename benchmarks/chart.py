"""A line chart as an SVG file, by hand: both axes logarithmic, no dependency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import log10
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 400, 64, 40, 130, 48
COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1")


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its name, and its points (x, y), both above 0."""

    name: str
    points: Sequence[tuple[float, float]]


def draw(file: Path, title: str, x_title: str, y_title: str, lines: Sequence[Line]) -> None:
    """Writes the chart."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    left, right = log10(min(xs)), log10(max(xs))
    low, high = log10(min(ys) / 1.3), log10(max(ys) * 1.3)

    def across(x: float) -> float:
        return LEFT + (log10(x) - left) / (right - left or 1) * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        return HEIGHT - BOTTOM - (log10(y) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 22, title, size=15),
        _text(LEFT, HEIGHT - 10, x_title),
        _text(LEFT - 50, TOP - 6, y_title),
    ]
    for x in sorted(set(xs)):
        parts.append(_rule(across(x), TOP, across(x), HEIGHT - BOTTOM))
        parts.append(_text(across(x) - 14, HEIGHT - BOTTOM + 16, _short(x)))
    for y in (n * 10.0**power for power in range(-2, 5) for n in (1, 2, 5)):
        if low <= log10(y) <= high:
            parts.append(_rule(LEFT, down(y), WIDTH - RIGHT, down(y)))
            parts.append(_text(LEFT - 34, down(y) + 4, f"{y:g}"))
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in line.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{across(x):.1f}" cy="{down(y):.1f}" r="3" fill="{colour}"/>' for x, y in line.points
        ]
    lowest = 0.0
    for number, line in sorted(enumerate(lines), key=lambda one: down(one[1].points[-1][1])):
        # Where lines end close together, one name below the other.
        lowest = max(lowest + 14, down(line.points[-1][1]) + 4)
        parts.append(_text(WIDTH - RIGHT + 10, lowest, line.name, colour=COLOURS[number % len(COLOURS)]))
    file.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")


def _text(x: float, y: float, text: str, *, size: int = 12, colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}">{escape(text)}</text>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _short(number: float) -> str:
    return f"{number / 1e6:g}M" if number >= 1e6 else f"{number / 1e3:g}k" if number >= 1e3 else f"{number:g}"
