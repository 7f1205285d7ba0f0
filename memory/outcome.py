"""What is remembered of a finished command: its task line and the last lines that say something; and whether it is anchored.

Promise: `Task: <message> → completed` or `→ failed (exit n)`, at most 500 characters, in time that does not
grow with the output, for any output whatever.

Anchored are memories whose text has one of the words of an incident, a decision or a milestone. A phrase is several words; a
word behind `no`, `not`, `without` or the like does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from memory.text import cut, one_line, rendered

SUMMARY_LENGTH = 500
MESSAGE_LENGTH = 200
ERROR_LENGTH = 200
LINES = 5
# Almost every output has its five lines in the short tail; noisy ones get a second, longer look.
TAILS = (4_096, 65_536)

_STAMP = re.compile(
    r"[\[(]?(?:"
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?"
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}\d{1,2} \d\d:\d\d:\d\d"
    r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} +\d{1,9} \S{1,80}:\d{1,6}"
    r"|(?:time|ts)=[\"']?\d{4}-\d\d-\d\dT[0-9:.,]{5,18}"
    r")(?: ?Z| ?[+-]\d\d:?\d\d| UTC)?[\"']?[\])]?(?=$|[\s|:,\-\[])[\s|:,\-]*"
)
_PID = re.compile(
    r"(?:[\[(]\d{1,7}[\])]|[\[(]?pid[ =:]{1,2}\d{1,7}[\])]?|<\d+\.\d+\.\d+>)[\s|:,\-]*", re.IGNORECASE
)
_NAMES = "debug|trace|verbose|info|notice|log|warn|warning|error|err|fatal|critical|crit"
_LEVEL = re.compile(rf"(?:[\[(] ?({_NAMES}) ?[\])]|level=[\"']?({_NAMES})\b[\"']?)[\s|:,\-]*", re.IGNORECASE)
_BARE_LEVEL = re.compile(
    r"(DEBUG|TRACE|VERBOSE|INFO|NOTICE|LOG)(?=[\s|:,\-\[])[\s|:,\-]*"
    r"|(debug|trace|verbose|info|notice|log) ?: +"
)
# A line's own "ERROR: ..." is what it has to say; only behind a time stamp is it a log's column.
_STAMPED_LEVEL = re.compile(rf"({_NAMES.upper()})(?=[\s|:,\-\[])[\s|:,\-]*|((?i:{_NAMES})) ?[|:][\s|:,\-]*")
_CHATTER = frozenset({"debug", "trace", "verbose"})
_MAX_PREFIXES = 6

_WORD = re.compile(r"[^\W_]")
_RULES = "=-*#~_─━═"
_TRIPLES = frozenset(rule * 3 for rule in _RULES)
_BLOCKS = re.compile("[█▉▊▋▌▍▎▏▓▒░━╸╺▕]{2}|--:--:--")
_BAR = re.compile(r"\[[#=\-.>* ]{3,}\]|[#=]{5}")
_PERCENT_ONLY = re.compile(
    r"(?:(?:progress|loading|building|compiling|extracting|installing|(?:down|up)loading)\W{0,5})?"
    r"\d{1,3}(?:\.\d{1,3})? ?%\W{0,3}\Z",
    re.IGNORECASE,
)
_SPINNERS = frozenset("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏⣾⣽⣻⢿⡿⣟⣯⣷◐◓◑◒")
_NOISE = re.compile(
    r"(?:"
    r"npm (?:notice|warn deprecated|http )"
    r"|\[?notice\]? ?:? ?(?:a new release of pip|to update, run)"
    r"|(?:warning: )?(?:running pip as the 'root' user|you are using pip version)"
    r"|you should consider upgrading via "
    r"|requirement already satisfied|using cached |downloading \S+ \([\d.]+ ?[kmg]?b\)"
    r"|(?:\d+ packages are|\d+ package is) looking for funding|run `npm (?:fund|audit)`"
    r"|browserslist: caniuse-lite|npx update-browserslist"
    r"|(?:remote: )?(?:enumerating|counting|compressing|receiving|writing|resolving|unpacking|updating)"
    r" (?:objects|deltas|files): "
    r"|% total +% received|dload +upload +total"
    r")",
    re.IGNORECASE,
)


def summarise_outcome(
    message: str, output: str | None, *, exit_code: int | None, failed: bool, error: str | None
) -> str:
    """The content of an outcome or error memory, at most 500 characters.

    First line: `Task: <message> → completed`, `→ failed (exit n)`, or `→ failed` when the command has no exit code that says
    so. The message is one line of at most 200 characters and the task line is never cut. Below it the last five meaningful
    lines of the output, each cut with `…` where they would not fit together, then `Error: ...` when an error is given that the
    output does not already show. Without meaningful output there is only the task line.
    """
    task = _task_line(message, exit_code, failed=failed)
    room = SUMMARY_LENGTH - len(task)
    lines = _last_lines(output) if output else []
    if error and (cause := _cause(error)) and not any(cause in line for line in lines):
        lines.append(f"Error: {cut(cause, ERROR_LENGTH)}")
    return "\n".join([task, *_fitted(lines, room)])


def _task_line(message: str, exit_code: int | None, *, failed: bool) -> str:
    told = one_line(message, MESSAGE_LENGTH) or "(no message)"
    if not failed:
        return f"Task: {told} → completed"
    return f"Task: {told} → failed (exit {exit_code})" if exit_code else f"Task: {told} → failed"


def _last_lines(output: str) -> list[str]:
    """The last five meaningful lines, in order."""
    found: list[str] = []
    for length in TAILS:
        found = _meaningful_tail(output, length)
        if len(found) == LINES or length >= len(output):
            break
    return found


def _meaningful_tail(output: str, length: int) -> list[str]:
    tail = output[-length:]
    if len(output) > length:
        _, newline, whole_lines = tail.partition("\n")
        # What stands before the first newline is half a line, unless it is all there is.
        if newline and whole_lines.strip():
            tail = whole_lines
    found: list[str] = []
    for line in _meaningful(reversed(rendered(tail).split("\n"))):
        if not found or line != found[-1]:
            found.append(line)
            if len(found) == LINES:
                break
    found.reverse()
    return found


def _meaningful(lines: Iterator[str]) -> Iterator[str]:
    """Of these lines, what is worth remembering: white space collapsed, without log prefixes and noise."""
    for raw in lines:
        line = " ".join(raw.split())
        if not line or line[0] in _SPINNERS or _NOISE.match(line):
            continue
        without = _without_log_prefix(line)
        if without is None or _NOISE.match(without) or _is_progress(without):
            continue
        line = _without_decoration(without)
        if _WORD.search(line):
            yield line


def _without_log_prefix(line: str) -> str | None:
    """The line without leading time stamps, levels and process ids; None for debug and trace lines."""
    position, stamped = 0, False
    for _ in range(_MAX_PREFIXES):
        level = None
        if found := _STAMP.match(line, position):
            stamped = True
        elif found := (
            _LEVEL.match(line, position)
            or _BARE_LEVEL.match(line, position)
            or (_STAMPED_LEVEL.match(line, position) if stamped else None)
        ):
            level = found[1] or found[2]
        elif not (position and (found := _PID.match(line, position))):
            break
        if level and level.lower() in _CHATTER:
            return None
        position = found.end()
    return line[position:] if position else line


def _without_decoration(line: str) -> str:
    """`===== 3 passed =====` is `3 passed`; a diffstat's bar of plus and minus signs goes."""
    if line[:3] in _TRIPLES:
        return line.strip(_RULES + " ")
    if line[-1:] in ("+", "-") and " | " in line:
        return line.rstrip("+- ")
    return line


def _is_progress(line: str) -> bool:
    if line[:1] in _RULES and line[-1:] in _RULES:  # a heading between rules, or a rule
        return False
    if _BLOCKS.search(line):
        return True
    return "%" in line and bool(_BAR.search(line) or _PERCENT_ONLY.match(line))


def _cause(error: str) -> str:
    """The line of an error text that names the fault: the last of a traceback, else the first."""
    if "Traceback (most recent call last)" in error[: TAILS[0]]:
        return (_last_lines(error) or [""])[-1]
    head = rendered(error[: TAILS[0]]).split("\n")
    return next(_meaningful(iter(head)), "")


def _fitted(lines: list[str], room: int) -> list[str]:
    """The lines, at most `room` characters with their newlines: the long ones are cut to one length."""
    room -= len(lines)
    if sum(map(len, lines)) <= room:
        return lines
    limit, waiting = 0, len(lines)
    for length in sorted(map(len, lines)):
        limit = room // waiting
        if length > limit:
            break
        room -= length
        waiting -= 1
    return [cut(line, limit) for line in lines]


Category: TypeAlias = Literal["incident", "decision", "milestone"]


def _any_of(words: str) -> re.Pattern[str]:
    phrases = (r"[\s-]+".join(map(re.escape, phrase.split())) for phrase in words.split(","))
    return re.compile(rf"(?<!\w)(?:{'|'.join(phrases)})(?!\w)", re.IGNORECASE)


_WORDS: dict[Category, re.Pattern[str]] = {
    "incident": _any_of(
        "incident, outage, breach, exploit, exploited, vulnerability, compromised, data loss, rollback, rolled back, "
        "downtime, postmortem"
    ),
    "decision": _any_of("decided, decision, chose, agreed to, approved, rejected"),
    "milestone": _any_of("milestone, launched, released, deployed, shipped, went live"),
}
"""By category the words; the first category that is found counts."""

_DENIED = re.compile(
    r"(?:\b(?:no|not|never|without|avoid(?:ed|s)?|prevent(?:ed|s)?)|n['\u2019]t)(?:\s+\w+)?\s+$",
    re.IGNORECASE,
)


def category_of(text: str) -> Category | None:
    """The category of a memory with this text; incidents first. None: it is not anchored."""
    for category, words in _WORDS.items():
        found = words.finditer(text)
        if any(_DENIED.search(text[max(0, one.start() - 60) : one.start()]) is None for one in found):
            return category
    return None
