"""The picture of `memoryd status --plot`: growth, the queue by topic, latency by topic, and how recall was judged.

Promise: where there is no history yet, the picture says so. Plots of single parts are here, too, for a page that shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from xml.etree.ElementTree import Element

from daemon.activity.reading import Activity, Day, TopicActivity
from daemon.plots.plot import Frame, Series, draw_bars, draw_lines, draw_nothing, round_up
from daemon.plots.svg import drawing, put_at, text_of, write

WIDTH, EDGE, GAP = 960.0, 20.0, 20.0
HEADING = 30.0
SMALL_IN_ROW = 4


def draw_picture(database: str, day: Activity, growth: Sequence[Day]) -> str:
    """All of it, as an SVG file. `day`: the last day."""
    parts: list[tuple[str, list[Element], int]] = [
        ("Growth", [plot_size(growth), plot_rows(growth)], 2),
        ("Jobs waiting, by topic", plot_queue(day), SMALL_IN_ROW),
        (
            "Latency by topic: until a job was claimed, and what its batch took",
            plot_latency(day),
            SMALL_IN_ROW,
        ),
        ("Recall quality", [plot_judged(growth), plot_useful(growth)], 2),
    ]
    until = day.until.strftime("%Y-%m-%d %H:%M UTC")
    height = 52.0 + sum(HEADING + _height(plots, in_row) for _, plots, in_row in parts)
    said = f"Growth, queue, latency and recall quality until {until}, each as a plot of its own."
    # A group: those who do not see it are read plot by plot.
    made = drawing(WIDTH, height, f"memoryd: {database}", said, role="group")
    write(made, EDGE, 30, f"memoryd: {database}", font_size=18, font_weight="bold")
    write(made, WIDTH - EDGE, 30, until, text_anchor="end")
    y = 52.0
    for heading, plots, in_row in parts:
        write(made, EDGE, y + 16, heading, font_size=15)
        y += HEADING
        for first in range(0, len(plots), in_row):
            row = plots[first : first + in_row]
            for nth, plot in enumerate(row):
                put_at(made, plot, EDGE + nth * (_width(in_row) + GAP), y)
            y += max(float(plot.get("height", "0")) for plot in row) + GAP
    return text_of(made) + "\n"


def plot_size(growth: Sequence[Day], width: float | None = None) -> Element:
    """The size of the database by day."""
    frame = _days(growth, "Size of the database", width)
    sizes = [day.bytes for day in growth]
    if not any(size is not None for size in sizes):
        return draw_nothing(frame, "No history yet: a daemon measures within an hour, then once a day.")
    return draw_lines(replace(frame, unit=_bytes, end_of_axis=round_up), [Series("size", sizes)])


def plot_rows(growth: Sequence[Day], width: float | None = None) -> Element:
    """Rows by source and day."""
    frame = _days(growth, "Rows that recall searches", width)
    sources = sorted({source for day in growth for source in day.rows})
    if not sources:
        return draw_nothing(frame, "No history yet: a daemon counts within an hour, then once a day.")
    return draw_lines(frame, [Series(each, [day.rows.get(each) for day in growth]) for each in sources])


def plot_queue(activity: Activity, width: float | None = None) -> list[Element]:
    """For each topic of which jobs waited, how many at the end of a minute."""
    if activity.topics and not any(one.whole.waiting for one in activity.topics):
        return [draw_nothing(_steps(activity, "Queue", width), "No job waited at the end of a minute.")]
    return [
        draw_lines(
            _steps(activity, one.topic, width), [Series("waiting", [step.waiting for step in one.steps])]
        )
        for one in activity.topics
        if one.whole.waiting
    ] or [draw_nothing(_steps(activity, "Queue", width), "No history yet, or no job in this time.")]


def plot_latency(activity: Activity, width: float | None = None) -> list[Element]:
    """For each topic, how long jobs waited until a worker claimed them, and how long batches ran."""
    plots = [_plot_latency(activity, one, width) for one in activity.topics if one.whole.p50 is not None]
    return plots or [
        draw_nothing(_steps(activity, "Latency", width), "No history yet, or no job in this time.")
    ]


def _plot_latency(activity: Activity, one: TopicActivity, width: float | None) -> Element:
    title = f"{one.topic}: {_count(one.whole.done)} done"
    frame = replace(_steps(activity, title, width), unit=_seconds, end_of_axis=_round_up_seconds)
    return draw_lines(
        frame,
        [
            Series("p50", [step.p50 for step in one.steps]),
            Series("p95", [step.p95 for step in one.steps]),
            Series("batch p95", [step.ran.quantile(0.95) for step in one.steps]),
        ],
    )


def plot_judged(
    growth: Sequence[Day], width: float | None = None, say: Callable[[str], str] = str
) -> Element:
    """Retrievals by day: judged useful, judged not useful, and not judged. `say`: its words in another language."""
    frame = _days(growth, say("Retrievals by judgement (mark_useful)"), width)
    if not any(day.asked for day in growth):
        return draw_nothing(frame, "No history yet: retrievals are counted once an hour.")
    return draw_bars(
        frame,
        [
            Series(say("useful"), [day.useful for day in growth]),
            Series(say("not useful"), [day.not_useful for day in growth]),
            Series(say("not judged"), [day.asked - day.useful - day.not_useful for day in growth]),
        ],
    )


def plot_useful(
    growth: Sequence[Day], width: float | None = None, say: Callable[[str], str] = str
) -> Element:
    """Of what was judged on a day, the share that was useful. `say`: its words in another language."""
    frame = replace(
        _days(growth, say("Useful, of those that were judged"), width),
        unit=_percent,
        end_of_axis=lambda _highest: 1.0,
    )
    shares = [day.useful / judged if (judged := day.useful + day.not_useful) else None for day in growth]
    if not any(share is not None for share in shares):
        return draw_nothing(frame, "No history yet: nothing that was counted is judged by mark_useful().")
    return draw_lines(frame, [Series(say("useful"), shares)])


def _days(growth: Sequence[Day], title: str, width: float | None) -> Frame:
    ends = [day.day.isoformat() for day in growth] or [""]
    wide = _width(2) if width is None else width
    return Frame(title, ends[0], ends[-1], _count, wide, 160, _round_up_count)


def _steps(activity: Activity, title: str, width: float | None) -> Frame:
    start, end = activity.since.strftime("%m-%d %H:%M"), activity.until.strftime("%m-%d %H:%M")
    wide = _width(SMALL_IN_ROW) if width is None else width
    return Frame(title, start, end, _count, wide, end_of_axis=_round_up_count)


def _width(in_row: int) -> float:
    return (WIDTH - 2 * EDGE - (in_row - 1) * GAP) / in_row


def _height(plots: Sequence[Element], in_row: int) -> float:
    """Of all rows, each as high as its highest plot."""
    rows = [plots[first : first + in_row] for first in range(0, len(plots), in_row)]
    return sum(max(float(plot.get("height", "0")) for plot in row) + GAP for row in rows)


def _count(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:.3g}" if value != int(value) else f"{int(value):,}"


def _bytes(value: float) -> str:
    size, unit = next(
        ((s, u) for s, u in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")) if value >= s), (1e3, "kB")
    )
    return f"{value / size:.3g} {unit}" if value else "0"


def _seconds(value: float) -> str:
    if value <= 0:
        return "0"
    if value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} s" if value < 120 else f"{value / 60:.3g} min"


def _round_up_count(value: float) -> float:
    return max(2.0, round_up(value))


def _round_up_seconds(value: float) -> float:
    return round_up(value) if value <= 40 else next((s for s in (60, 120, 240) if s >= value), 300.0)


def _percent(value: float) -> str:
    return f"{value:.0%}"
