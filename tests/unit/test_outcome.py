"""What is remembered of a finished command: the task line and the last lines that say something."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.outcome import summarise_outcome


def summary(
    output: str | None = None,
    message: str = "deploy staging",
    *,
    exit_code: int | None = 0,
    failed: bool = False,
    error: str | None = None,
) -> str:
    return summarise_outcome(message, output, exit_code=exit_code, failed=failed, error=error)


def kept(output: str) -> list[str]:
    """The lines below the task line."""
    return summary(output).split("\n")[1:]


# --- the task line


@pytest.mark.parametrize(
    ("exit_code", "failed", "ending"),
    [
        (0, False, "→ completed"),
        (None, False, "→ completed"),
        (1, True, "→ failed (exit 1)"),
        (-9, True, "→ failed (exit -9)"),
        (None, True, "→ failed"),
        (0, True, "→ failed"),
    ],
)
def test_task_line_tells_how_it_ended(exit_code: int | None, failed: bool, ending: str) -> None:
    assert summary(exit_code=exit_code, failed=failed) == f"Task: deploy staging {ending}"


def test_message_is_one_line_of_at_most_200_characters() -> None:
    told = summary(message="fix\r\nthe \x1b[1mbuild\x1b[0m\tnow\rplease " + "x" * 400)
    assert told.startswith("Task: fix the build now please xxx")
    assert told.endswith("x… → completed")
    assert len(told) == len("Task: ") + 200 + len(" → completed")


@pytest.mark.parametrize("message", ["", "  \n ", "\x1b[0m\x00"])
def test_an_empty_message_is_named(message: str) -> None:
    assert summary(message=message) == "Task: (no message) → completed"


# --- the lines


def test_the_last_five_lines_follow_in_order() -> None:
    assert kept("\n".join(f"step {number}" for number in range(9))) == [
        "step 4",
        "step 5",
        "step 6",
        "step 7",
        "step 8",
    ]


@pytest.mark.parametrize("output", [None, "", "\n \n\t\n", "-----\n}\n", "DEBUG one\nDEBUG two"])
def test_without_meaningful_output_the_task_line_stands_alone(output: str | None) -> None:
    assert summary(output) == "Task: deploy staging → completed"


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m and \x1b[38;5;12mblue\x1b[m", "red and blue"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\ here", "link here"),
        ("\x1b]0;window title\x07built", "built"),
        ("\x1b(B\x1b=\x1b7done\x1b8", "done"),
        ("\x9b31mred\x9b0m", "red"),
        ("cut short \x1b[3", "cut short"),
        ("a\x00b\x07c\x7f", "abc"),
        ("working\rdone!", "done!ng"),
        ("downloading 10%\rdownloading 99%\r\x1b[Kinstalled", "installed"),
        ("a long status\r\x1b[2Kshort", "short"),
        ("working on it\rdone\x1b[K", "done"),
        ("fine\r\n", "fine"),
        ("fine\r\r\n", "fine"),
        ("12\b3", "13"),
        ("N\bNA\bAM\bME\bE", "NAME"),
        ("x\b\b\by", "y"),
        ("raw \x1d separator", "raw separator"),
        ("a\u2028b\u202etxt", "a btxt"),
        ("lone \ud800 half", "lone \ufffd half"),
    ],
)
def test_text_as_a_terminal_would_show_it_is_kept(output: str, shown: str) -> None:
    assert kept(output) == [shown]


@pytest.mark.parametrize(
    "noise",
    [
        "==========",
        "│  │",
        "{",
        "⠋ installing",
        "100%|██████████| 10/10 [00:01<00:00, 9.1it/s]",
        "   ━━━━━━━━━━━━━━━━ 12.3/12.3 MB 4.5 MB/s eta 0:00:00",
        "[=====>    ] 50%",
        "installing 50% ━━━━━━━━━━",
        "45%",
        "Progress: 45.5 %",
        "Receiving objects: 100% (123/123), done.",
        "  % Total    % Received % Xferd  Average Speed",
        "100  1256  100  1256    0     0   5000      0 --:--:-- --:--:-- --:--:--  5024",
        "npm notice New minor version of npm available!",
        "npm warn deprecated glob@7.2.3: old",
        "[notice] A new release of pip is available: 24.0 -> 25.1",
        "[notice] To update, run: pip install --upgrade pip",
        "WARNING: Running pip as the 'root' user can result in broken permissions",
        "Requirement already satisfied: numpy in ./lib",
        "12 packages are looking for funding",
        "DEBUG cache warm",
        "[trace] entering",
        "2026-05-06 12:34:56,123 DEBUG pool: 3 idle",
        "level=debug msg=tick",
        "2026-05-06T12:34:56Z",
    ],
)
def test_lines_without_meaning_are_left_out(noise: str) -> None:
    assert kept(f"first\n{noise}\nlast") == ["first", "last"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("2026-05-06T12:34:56.789Z INFO worker: started", "worker: started"),
        ("2026-05-06 12:34:56,123 - root - 3 jobs", "root - 3 jobs"),
        ("[2026-05-06 12:34:56 +0000] [4321] [INFO] Booting worker", "Booting worker"),
        ("2026-05-06 12:34:56 UTC [77] ERROR:  relation is missing", "relation is missing"),
        ("12:00:01 [warn] disk low", "disk low"),
        ("May  6 12:00:00 host sshd[123]: opened", "host sshd[123]: opened"),
        ("I0506 12:34:56.789012    1 main.go:12] listening", "listening"),
        ("time=2026-05-06T12:34:56Z level=info msg=ready", "msg=ready"),
        ("INFO:     Started server process [1234]", "Started server process [1234]"),
        ("info: hello", "hello"),
        ("===== 3 passed in 0.12s =====", "3 passed in 0.12s"),
        ("===== 87% covered =====", "87% covered"),
        ("━━━━ Summary of 3 runs ━━━━", "Summary of 3 runs"),
        ("--- FAIL: TestQueue (0.00s)", "FAIL: TestQueue (0.00s)"),
        (" lib/queue.ex   | 49 +++++-----", "lib/queue.ex | 49"),
    ],
)
def test_log_prefixes_and_decoration_are_removed(line: str, shown: str) -> None:
    assert kept(line) == [shown]


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: could not connect to server",
        "Error: boom",
        "Debug build finished",
        "Information about 3 rows",
        "Coverage: 87%",
        "I am 50% done",
        "12:30 is lunch",
        "2026-05-06 is a Wednesday",
        "[42] is the answer",
        "3 files changed, 7 insertions(+), 2 deletions(-)",
        "compiled with C++",
        "größe: 東京",
    ],
)
def test_ordinary_lines_are_kept_as_they_are(line: str) -> None:
    assert kept(line) == [line]


def test_a_repeated_line_counts_once() -> None:
    assert kept("start\n" + "retrying\n" * 50 + "gave up") == ["start", "retrying", "gave up"]


# --- failures


def test_the_error_follows_the_output() -> None:
    told = summary("step one", exit_code=2, failed=True, error="connection refused\nsee the log")
    assert told == "Task: deploy staging → failed (exit 2)\nstep one\nError: connection refused"


def test_the_error_alone_without_output() -> None:
    told = summary(None, exit_code=None, failed=True, error="timed out after 60 s")
    assert told == "Task: deploy staging → failed\nError: timed out after 60 s"


def test_an_error_that_the_output_shows_is_not_repeated() -> None:
    told = summary("fatal: connection refused", exit_code=1, failed=True, error="connection refused")
    assert told == "Task: deploy staging → failed (exit 1)\nfatal: connection refused"


def test_the_exception_of_a_traceback_is_kept() -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no such plan\n'
    assert summary(exit_code=1, failed=True, error=trace).endswith("\nError: ValueError: no such plan")


# --- sizes


def test_short_lines_stay_whole_beside_long_ones() -> None:
    told = summary(f"{'a' * 900}\nshort\n{'b' * 900}", message="m" * 300, exit_code=1, failed=True)
    task, first, second, third = told.split("\n")
    assert task.endswith("→ failed (exit 1)")
    assert second == "short"
    assert len(first) == len(third)
    assert first.endswith("a…")
    assert 490 <= len(told) <= 500


def test_only_the_end_of_megabytes_is_read() -> None:
    chatter = "2026-05-06 12:34:56 DEBUG tick\n" * 300
    output = "compiling\n" * 500_000 + "all good\n" + chatter
    assert kept(output) == ["compiling", "all good"]


def test_one_endless_progress_line_shows_its_last_state() -> None:
    output = "".join(f"\rfetched {number} rows" for number in range(300_000)) + "\n"
    assert kept(output) == ["fetched 299999 rows"]


@pytest.mark.parametrize(
    "piece",
    [
        "\x1b[",
        "\x1b]",
        "\x1b[0",
        "a\b",
        "\rx",
        "x\x1b[2K",
        "[#",
        "% [",
        "remote: ",
        "12:34:56 ",
        "\ud800",
        "=",
    ],
)
def test_hostile_repetition_gives_a_short_summary(piece: str) -> None:
    hostile = piece * (1_000_000 // len(piece))
    told = summarise_outcome(hostile, hostile, exit_code=1, failed=True, error=hostile)
    assert told.startswith("Task: ")
    assert len(told) <= 500


# --- for any text whatever

_ANY = st.text(st.characters(exclude_categories=()))
_CONTROLS = ["\x1b[", "\x1b]8;;", "\x1b", "\x07", "\r", "\b", "\n", "\x9b", "\x1c", "\x1d", "\x00", "\ud800"]
_WORDS = [
    "K",
    "2K",
    "31m",
    "50%",
    "██",
    "[",
    "]",
    " ",
    "x",
    "→",
    "===",
    "INFO ",
    "DEBUG",
    "2026-05-06 12:34:56 ",
]
_TERMINAL = st.lists(st.sampled_from(_CONTROLS + _WORDS)).map("".join)
_OUTPUT = st.one_of(_ANY, _TERMINAL)


@given(
    message=_OUTPUT, output=st.none() | _OUTPUT, exit_code=st.none() | st.integers(-999, 999), error=_OUTPUT
)
def test_any_text_gives_a_clean_bounded_summary(
    message: str, output: str | None, exit_code: int | None, error: str
) -> None:
    told = summarise_outcome(message, output, exit_code=exit_code, failed=True, error=error)
    lines = told.split("\n")
    assert len(told) <= 500
    assert len(lines) <= 7
    assert lines[0].startswith("Task: ")
    assert "→ failed" in lines[0]
    assert all(line.strip() for line in lines)
    assert not {unicodedata.category(letter) for letter in told.replace("\n", "")} & {"Cc", "Cs"}


@given(before=_OUTPUT)
def test_lines_before_the_last_five_change_nothing(before: str) -> None:
    last = ["building", "testing", "pushing", "rolling out", "healthy"]
    assert kept("\n".join([before, *last])) == last
