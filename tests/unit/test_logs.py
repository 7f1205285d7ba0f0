"""Logs: one JSON object a line for machines, a readable line for people, and no word of any content."""

from __future__ import annotations

import io
import json
import logging
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from daemon.logs import configure_logs, describe, frames, get_logger

SECRET = "the-secret-recipe"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    """Every line, parsed."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("style", ["json", "auto"])
def test_away_from_a_terminal_each_line_is_a_json_object(style: str) -> None:
    stream = io.StringIO()
    configure_logs(level="debug", style=style, stream=stream)
    log = get_logger(daemon="d-1")
    log.debug("batch_done", jobs=3, ms=1.5)
    log.info(
        "odd",
        text='line\nbreak "quoted" \x1b[31m \x00 \ud800 é',
        nothing=None,
        id=UUID(int=7),
        listed=[1, "two"],
    )
    log.bind(topic="index").warning("job_retried", retry_in=0.5)
    first, odd, last = lines(stream)
    assert (first["event"], first["level"], first["daemon"], first["jobs"], first["ms"]) == (
        "batch_done",
        "debug",
        "d-1",
        3,
        1.5,
    )
    assert first["timestamp"].endswith("Z")
    assert odd["text"].startswith('line\nbreak "quoted"')
    assert (odd["nothing"], odd["listed"]) == (None, [1, "two"])
    assert str(UUID(int=7)) in str(odd["id"])
    assert (last["level"], last["topic"], last["daemon"]) == ("warning", "index", "d-1")


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_lines_below_the_level_are_not_logged(level: str, told: list[str]) -> None:
    stream = io.StringIO()
    configure_logs(level=level, style="json", stream=stream)
    for name in ("debug", "info", "warning", "error"):
        getattr(get_logger(), name)(f"an_{name}")
    assert [line["level"] for line in lines(stream)] == told


def test_the_console_format_is_a_readable_line() -> None:
    stream = Terminal()
    configure_logs(level="info", style="auto", stream=stream)
    get_logger().info("daemon_started", wake_up="listen")
    logging.getLogger("library").warning("something %s", "odd")
    first, second = stream.getvalue().splitlines()
    assert "daemon_started" in first
    assert "listen" in first
    assert "something odd" in second
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(first)


def test_warnings_of_libraries_are_json_too() -> None:
    stream = io.StringIO()
    configure_logs(level="info", style="json", stream=stream)
    logging.getLogger("apscheduler.executors").warning(
        "Run time of job %r was missed by %s", "sweep", "0:00:05"
    )
    logging.getLogger("chatty").info("nobody needs to know")
    [line] = lines(stream)
    assert line["event"] == "Run time of job 'sweep' was missed by 0:00:05"
    assert (line["level"], line["logger"]) == ("warning", "apscheduler.executors")
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize("style", ["json", "console"])
def test_an_exception_that_a_library_logs_is_logged_without_its_message(style: str) -> None:
    stream = io.StringIO()
    configure_logs(level="info", style=style, stream=stream)
    try:
        int(SECRET)
    except ValueError:
        logging.getLogger("asyncio").exception("Task exception was never retrieved")
    text = stream.getvalue()
    assert SECRET not in text
    assert "ValueError" in text
    assert "test_logs.py" in text
    assert len(text.splitlines()) == 1


def test_an_error_is_described_without_its_message() -> None:
    assert describe(ValueError(SECRET)) == "ValueError"
    assert describe(asyncpg.UniqueViolationError(SECRET)) == "UniqueViolationError [23505]"


def test_the_frames_of_an_error_are_shown_without_its_message() -> None:
    def fails() -> None:
        raise ValueError(SECRET)

    with pytest.raises(ValueError, match=SECRET) as raised:
        fails()
    found = frames(raised.value)
    assert [line.partition(" ")[2] for line in found] == [
        "test_the_frames_of_an_error_are_shown_without_its_message",
        "fails",
    ]
    assert all(line.startswith("test_logs.py:") for line in found)
    assert SECRET not in str(found)
