"""Now: how memoryd does, again every five seconds while somebody looks.

The page is the operator's: an end user sees how much of their own there is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from daemon.activity.reading import Activity, Day, TopicActivity, read_activity, read_growth
from daemon.plots.picture import plot_judged, plot_useful
from daemon.plots.plot import Frame, Series, draw_lines, round_up
from daemon.plots.svg import text_of
from daemon.queue.queue import requeue
from daemon.web.forms import BadValueError, text_in
from daemon.web.languages import language_of, translated
from daemon.web.pages.now_doctor import PAUSE_SECONDS, STALE_SECONDS, doctor_of, let_look
from daemon.web.pages.now_reading import MOST_COUNTED, OWN, read_now
from daemon.web.render import number, page
from daemon.web.viewer import reading
from daemon.web.web import Web, viewer_of, web_of

HOUR, DAY = 60, 1440
DAY_STEP = 15
JUDGED_DAYS = 90
PLOT_WIDTH, PLOT_HEIGHT = 300.0, 120.0


async def whole(request: Request) -> Response:
    """The page."""
    web, viewer = web_of(request), viewer_of(request)
    if viewer.user is not None:
        async with reading(web.database, viewer) as connection:
            rows = await connection.fetch(OWN, viewer.user, MOST_COUNTED + 1)
        return page(request, "now/own.html", rows=rows, most=MOST_COUNTED)
    let_look(web, older_than=STALE_SECONDS)
    return page(request, "now/page.html", **await _live(web), **await _history(request, web))


async def live(request: Request) -> Response:
    """The part that changes from moment to moment."""
    web = _of_support(request)
    let_look(web, older_than=STALE_SECONDS)
    return page(request, "now/live.html", **await _live(web))


async def history(request: Request) -> Response:
    """The last hour and day, and how recall was judged."""
    return page(request, "now/history.html", **await _history(request, _of_support(request)))


async def look(request: Request) -> Response:
    """Lets the doctor look again."""
    let_look(_of_support(request), older_than=PAUSE_SECONDS)
    return RedirectResponse("/#doctor", status_code=303)


async def put_back(request: Request) -> Response:
    """Makes jobs of dead letters again: of one, of a topic, or of all."""
    web, form = _of_support(request), request.state.form
    given, topic = form.get("id", ""), text_in(form, "topic", longest=200)
    if given and not (given.isascii() and given.isdigit() and len(given) < 19):
        raise BadValueError("id is the number of a dead letter: memoryd dead lists them.")
    if not given and topic is None and form.get("all") != "yes":
        raise BadValueError("Say which dead letters: one, those of a topic, or all.")
    back = await requeue(web.database, ids=[int(given)] if given else None, topic=topic)
    web.log.info("web_requeued", jobs=back)
    return RedirectResponse("/#dead", status_code=303)


def _of_support(request: Request) -> Web:
    web = web_of(request)
    if web.user is not None:
        raise BadValueError("This page is for who runs memoryd.")
    return web


async def _live(web: Web) -> dict[str, Any]:
    now = await read_now(web.database, web.settings.heartbeat_seconds)
    for one in now["daemons"]:
        one["started_at"], one["seen_at"] = _time(one["started_at"]), _time(one["seen_at"])
    for one in now["letters"]:
        one["died_at"] = _time(one["died_at"])
    if now["dream"] is not None:
        now["dream"]["started_at"] = _time(now["dream"]["started_at"])
    return {"here": now, "doctor": doctor_of(web), "free": _free(web), "pause": PAUSE_SECONDS}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _free(web: Web) -> int | None:
    """Room on the disk of the embedded server, which is on this machine."""
    if web.settings.database_url is not None:
        return None
    try:
        return shutil.disk_usage(web.settings.data_dir).free
    except OSError:
        return None


async def _history(request: Request, web: Web) -> dict[str, Any]:
    async with web.database.connection() as connection:
        hour = await read_activity(connection, minutes=HOUR)
        day = await read_activity(connection, minutes=DAY, step_minutes=DAY_STEP)
        growth = await read_growth(connection, days=JUDGED_DAYS)
    say, _ = translated(language_of(request))
    by_name = {one.topic: one for one in hour.topics}
    topics = [
        {
            "topic": one.topic,
            "day": one.whole,
            "hour": by_name[one.topic].whole if one.topic in by_name else None,
            "plots": [
                _plot(each, part, say(title), [say("waiting"), say("failed")])
                for each, part, title in ((hour, by_name.get(one.topic), "Last hour"), (day, one, "Last day"))
            ],
        }
        for one in sorted(day.topics, key=lambda one: -one.whole.done)
    ]
    return {"topics": topics, "recall": _judged(growth, say)}


def _judged(growth: Sequence[Day], say: Callable[[str], str]) -> dict[str, Any]:
    """How many retrievals there were, how they were judged, and the pictures of it that have something to show."""
    asked, useful = sum(day.asked for day in growth), sum(day.useful for day in growth)
    judged = useful + sum(day.not_useful for day in growth)
    plots = [
        plot(growth, PLOT_WIDTH, say)
        for plot, shown in ((plot_judged, asked), (plot_useful, judged))
        if shown
    ]
    return {
        "days": JUDGED_DAYS,
        "asked": asked,
        "judged": judged,
        "useful": useful,
        "plots": [Markup(text_of(plot)) for plot in plots],  # noqa: S704 - as below
    }


def _plot(activity: Activity, one: TopicActivity | None, title: str, names: Sequence[str]) -> Markup:
    """How many jobs waited, and how many attempts failed, as SVG."""
    start, end = (time.strftime("%H:%M") for time in (activity.since, activity.until))
    frame = Frame(title, start, end, number, PLOT_WIDTH, PLOT_HEIGHT, lambda value: max(2.0, round_up(value)))
    steps = () if one is None else one.steps
    series = [Series(names[0], [step.waiting for step in steps] or [0] * activity.steps)]
    if any(step.failed for step in steps):
        series.append(Series(names[1], [step.failed for step in steps]))
    # Of ours: the drawing escapes what it is given, and has no script and no style.
    return Markup(text_of(draw_lines(frame, series)))  # noqa: S704


routes: list[Route] = [
    Route("/", whole),
    Route("/now/live", live),
    Route("/now/history", history),
    Route("/now/doctor", look, methods=["POST"]),
    Route("/now/dead", put_back, methods=["POST"]),
]
