"""Plots are well-formed whatever they show, run and load nothing, and are said in words."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from xml.etree.ElementTree import Element, fromstring

import pytest

from daemon.activity.reading import NOTHING, Activity, Day, Histogram, Step, TopicActivity
from daemon.measures import SECONDS
from daemon.plots.picture import draw_picture, plot_queue
from daemon.plots.plot import Frame, Series, draw_bars, draw_lines, round_up
from daemon.plots.svg import text_of

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</text><script>alert(1)</script>\"'&amp;\x00\x1b\ud800\uffff 💾"
NUMBERS = [1.0, None, math.nan, math.inf, -math.inf, -5.0, 1e300, 5e-324, 0.0, 2.0]
DAY = Activity(datetime(2026, 5, 4, 12, 30, tzinfo=UTC), timedelta(minutes=15), 96, ())


def frame(title: str = "a plot") -> Frame:
    return Frame(title, "then", "now", lambda value: f"{value:g}")


def worked(topic: str, waiting: int = 3) -> TopicActivity:
    counts = [int(bound == 0.5) for bound in (*SECONDS, None)]
    step = Step(done=2, waiting=waiting, waited=Histogram(counts), ran=Histogram(counts))
    return TopicActivity(topic, (*[NOTHING] * 95, step))


def parsed(text: str) -> Element:
    """The drawing, if a page with a strict policy may contain it."""
    root = fromstring(text)
    for each in root.iter():
        name = each.tag.removeprefix(SVG)
        assert name in {"svg", "title", "desc", "text", "line", "polyline", "circle", "rect"}
        for attribute, value in each.attrib.items():
            assert attribute not in {"style", "id", "href"}
            assert not attribute.startswith(("on", "{"))
            assert "url(" not in value
            assert "nan" not in value
            assert "inf" not in value
        if name == "svg":
            assert each.get("role") in {"img", "group"}
            assert [child.tag for child in each[:2]] == [f"{SVG}title", f"{SVG}desc"]
            assert all(child.text for child in each[:2])
    return root


@pytest.mark.parametrize("draw", [draw_lines, draw_bars])
@pytest.mark.parametrize(
    "series",
    [
        [],
        [Series("empty", [])],
        [Series(HOSTILE, NUMBERS), Series("", [None] * 10)],
        [Series("x" * 100_000, [0.0]), Series("shorter", [])],
        [Series(f"number {n}", [n]) for n in range(50)],
    ],
)
def test_any_name_and_any_number_is_drawn(draw: object, series: list[Series]) -> None:
    assert callable(draw)
    root = parsed(text_of(draw(frame(HOSTILE), series)))
    title, words = root[0].text or "", root[1].text or ""
    assert title.startswith("</text><script>")
    assert "\x00" not in title
    assert all(one.name[:1] in words for one in series)
    assert root.findall(f"{SVG}script") == []


def test_a_gap_is_no_line_and_one_value_alone_is_a_dot() -> None:
    root = parsed(text_of(draw_lines(frame(), [Series("waits", [1, 2, None, 4, None, 1, 1])])))
    assert len(root.findall(f"{SVG}polyline")) == 2
    assert len(root.findall(f"{SVG}circle")) == 1
    assert "waits: maximum 4, last 1." in (root[1].text or "")


def test_bars_stand_on_each_other() -> None:
    root = parsed(text_of(draw_bars(frame(), [Series("a", [1, 3]), Series("b", [3, 1])])))
    bars = [(float(bar.get("y", "")), float(bar.get("height", ""))) for bar in root.findall(f"{SVG}rect")]
    (a, high), (b, three_high), *_ = bars
    assert three_high == pytest.approx(3 * high, abs=0.2)
    assert b + three_high == pytest.approx(a, abs=0.2)


@pytest.mark.parametrize(
    ("value", "end"),
    [(0, 2), (-1, 2), (0.003, 0.004), (1, 1), (1.1, 2), (2.1, 4), (4.1, 10), (99, 100), (101, 200)],
)
def test_an_axis_ends_at_a_round_number(value: float, end: float) -> None:
    assert round_up(value) == pytest.approx(end)


def test_percentiles_are_those_of_the_sums() -> None:
    """Of 100 durations 90 were up to 10 ms, 9 up to 1 s, and one longer than the last bound."""
    counts = [0] * (len(SECONDS) + 1)
    counts[SECONDS.index(0.01)], counts[SECONDS.index(1.0)], counts[-1] = 90, 9, 1
    histogram = Histogram(counts)
    assert histogram.quantile(0.5) == pytest.approx(0.005 + 0.005 * 50 / 90)
    assert histogram.quantile(0.9) == pytest.approx(0.01)
    assert histogram.quantile(0.95) == pytest.approx(0.5 + 0.5 * 5 / 9)
    assert histogram.quantile(1.0) == SECONDS[-1]
    assert Histogram(()).quantile(0.5) is None
    assert Histogram([0] * len(counts)).quantile(0.5) is None


def test_the_picture_of_no_history_says_so() -> None:
    root = parsed(draw_picture(HOSTILE, DAY, ()))
    told = [each.text or "" for each in root.iter(f"{SVG}desc")]
    assert sum("No history yet" in one for one in told) == 6


def test_the_picture_has_growth_queue_latency_and_quality() -> None:
    activity = Activity(DAY.until, DAY.step, DAY.steps, (worked("index"), worked("<context>", waiting=0)))
    growth = [
        Day(date(2026, 5, day), 10**9 * day, {"memory": 1000 * day, HOSTILE: 2}, 10, 3 * (day % 2), 1)
        for day in range(1, 5)
    ]
    root = parsed(draw_picture("app", activity, growth))
    told = {
        (each.findtext(f"{SVG}title") or ""): (each.findtext(f"{SVG}desc") or "")
        for each in root.iter(f"{SVG}svg")
    }
    assert "size: maximum 4 GB, last 4 GB." in told["Size of the database"]
    assert "memory: maximum 4,000, last 4,000." in told["Rows that recall searches"]
    assert "waiting: maximum 3, last 3." in told["index"]
    assert "<context>" not in told
    assert "p95: maximum 488 ms" in told["<context>: 2 done"]
    assert "not judged: maximum 9, last 9." in told["Retrievals by judgement (mark_useful)"]
    assert "useful: maximum 75%, last 0%." in told["Useful, of those that were judged"]
    assert len({each.get("y") for each in root.findall(f"{SVG}svg")}) == 4


def test_a_queue_that_never_waits_is_told() -> None:
    activity = Activity(DAY.until, DAY.step, DAY.steps, (worked("index", waiting=0),))
    [plot] = plot_queue(activity)
    assert "No job waited" in (plot.findtext("desc") or "")
