"""Makes memories from the journal of a session, by rules: turns with their outcome, and failures with their repair."""

from __future__ import annotations

import re

from plugins.hooks.events import Event
from plugins.hooks.privacy import HIDDEN, LONGEST_COMMAND, Rules, cleaned, tells_secret

TYPE_CHECKING = False  # importing typing takes too long
if TYPE_CHECKING:
    from typing import Any

    Entry = dict[str, Any]

NAMESPACE = bytes.fromhex("5a0f6d0e6f0b4a579d7b0c7d4f3f6f2a")
LONGEST_PROMPT, LONGEST_END, LONGEST_SHOWN, LONGEST_ERROR = 300, 2500, 200, 300
LONGEST_RULES = 20_000
"""Characters of a prompt in which rules are looked for."""
MOST_NAMED = 12
"""Files or commands that a memory names."""
TURN_HOURS = 2160
"""Time that a turn is remembered, as for task_memory. A repair stays."""
LEAST_SAID = 100
"""Characters of an answer that is remembered although the turn changed nothing."""

TELLING = ("error", "fail", "exception", "denied", "not found", "cannot", "unable", "fatal", "panic")
LEADING = r"\A(?:cd\s+\S+\s*(?:&&|;|\n)\s*)+"
REDIRECTED = r"\s*\d?>>?\s*(?:&\d|\S+)"
WRAPPED = (
    r"\A(?:\w+=\S*\s+|(?:sudo|time|env|command|exec|npx|bunx|uvx)\s+|(?:uv|poetry|pipenv|hatch|pdm|rye|conda|pixi)\s+run\s+"
    r"|(?:bundle|pnpm|npm|yarn)\s+exec\s+(?:--\s+)?|(?:\S*/)?python[\d.]*\s+-m\s+|(?:[\w.~-]*/)+(?=[\w.-]+(?:\s|\Z)))"
)
"""The beginning of a command that says how to call it, not what it does."""
LOOKS = (
    r"\A(?:ls|ll|cat|head|tail|less|grep|rg|find|fd|which|pwd|echo|wc|file|stat|tree|cd|sed -n"
    r"|diff|cmp|jq|test|git (?:(?:--no-pager|-C \S+) )*(?:status|log|diff|show|branch|blame))(?![\w./-])|\A\[\[? "
)
"""Commands that only read: neither work nor a failure."""
PART = r"\A(?:[^;&'\"\n]|'[^'\n]*'|\"[^\"\n]*\")*(?:&&|;)\s*"
"""A command before another one."""
OF_HOST = r"\A/[\w:-]+\s*\Z|\A<[a-z-]+>"
"""A command to the host, or a message that the host makes itself."""

TO_KEEP = (
    r"(?i)(?:\A|[\n.!?;,]\s*)(?:please\s+|bitte\s+)?(?:remember|memori[sz]e|note|save|store|merk|recuerda|retiens|记住)"
    rf"(?!\w)[^\n?]{{0,300}}{re.escape(HIDDEN)}"
)
"""What a prompt orders to remember and is a credential, although it has not the form of a rule."""


def entry_of(event: Event, rules: Rules, at: str) -> Entry | None:
    """The journal's entry of an event; None if it keeps nothing."""
    if event.name == "UserPromptSubmit":
        return {"at": at, "asked": cleaned(event.text, LONGEST_PROMPT)}
    if event.name in ("AgentResponse", "Stop", "PreCompact", "SessionEnd"):
        text = cleaned(event.text, LONGEST_END)
        return {"at": at, "said": text} if text else None
    entry: Entry = {"at": at}
    if files := [shown for path in event.files if (shown := rules.shown(path)) is not None]:
        entry["files"] = [cleaned(one, LONGEST_SHOWN) for one in files[:MOST_NAMED]]
    command = _work_of(re.sub(LEADING, "", event.command[:LONGEST_COMMAND]).strip())
    if command and not rules.hides_in(event.command):
        entry["ran"] = cleaned(command.split("\n", 1)[0], LONGEST_SHOWN)
    if event.failure is not None:
        entry["failed"] = _key_lines(event.failure, rules)
    return entry if "files" in entry or "ran" in entry else None


def memories_of(journal: list[Entry], agent: str, head: Entry, *, over: bool) -> list[Entry]:
    """The memories of a session so far; `over`: it has ended. `head`: its host, session and project.

    The same journal of the same agent gives the same ids: the id of a turn or failure is made from the time when it began.
    """
    made = []
    for turn in _turns(journal):
        if text := _text_of_turn(turn):
            memory = _memory(agent, head, "turn", turn[0]["at"], "outcome", text, turn[-1]["at"])
            files = {name for e in turn for name in e.get("files", ()) if "failed" not in e}
            memory["metadata"]["files"] = sorted(files)[:MOST_NAMED]
            made.append(memory | {"ttl_hours": TURN_HOURS, "passed": _passed(turn)})
    for began, ran, text, at, repaired in _failures(journal):
        if repaired or over:
            memory = _memory(agent, head, "failure", began, "fact" if repaired else "error", text, at)
            memory["metadata"] |= {"command": command_of(ran), "ran": ran}
            made.append(memory if repaired else memory | {"ttl_hours": TURN_HOURS})
    return made


def command_of(ran: str) -> str:
    """What a command does, however it is called: "uv run pytest -q tests" and "pytest tests" are the same."""
    command = re.sub(REDIRECTED, "", ran).strip()
    while wrapper := re.match(WRAPPED, command):
        command = command[wrapper.end() :]
    return " ".join(word for word in command.split() if not word.startswith("-"))


def _passed(turn: list[Entry]) -> dict[str, str]:
    """The commands that passed last in a turn, by what they do."""
    ended = {what: e for e in turn if e.get("ran") and _is_alone(e["ran"]) for what in _parts_of(e["ran"], e)}
    return {what: e["ran"] for what, e in ended.items() if "failed" not in e}


def _parts_of(ran: str, entry: Entry) -> list[str]:
    """What a command does; of one that passed also what each part of "a && b" does, since each has passed."""
    parts = ran.split("&&") if "failed" not in entry and not re.search(r"[;'\"]|\bcd\s", ran) else []
    return list(dict.fromkeys([command_of(ran), *(command_of(part) for part in parts)]))


def _work_of(command: str) -> str:
    """A command without those before it that only read, as in "ls && npm test"; "" if it only reads itself."""
    while re.match(LOOKS, command):
        part = re.match(PART, command)
        command = command[part.end() :] if part else ""
    return command


def _is_alone(command: str) -> bool:
    """Whether the exit code is that of the command: not of a pipe, nor of a start in the background."""
    return "|" not in command and not command.endswith("&")


def _memory(agent: str, head: Entry, what: str, began: str, kind: str, text: str, at: str) -> Entry:
    return {
        "id": _id_of(f"{agent}:{head['host']}:{head['session']}:{what}:{began}"),
        "kind": kind,
        "content": text,
        "metadata": {"project": head["project"], "session": head["session"]},
        "source": head["host"],
        "ttl_hours": None,
        "created_at": at,
    }


def _is_of_host(text: str) -> bool:
    return text.startswith(("/", "<")) and re.match(OF_HOST, text) is not None


def rules_of(prompt: str, agent: str, head: Entry, at: str) -> tuple[list[Entry], int, str]:
    """The memories of the rules that a prompt states; how many others contain a secret; and the prompt without these."""
    from plugins.hooks.standing import rules_in

    read = cleaned(prompt, LONGEST_RULES)
    stated = [] if _is_of_host(read) else rules_in(read)
    refused = [rule for rule in stated if tells_secret(rule)]
    if not stated and HIDDEN in read and re.search(TO_KEEP, read):
        return [], 1, HIDDEN
    for rule in refused:
        # A rule is read from cleaned text: the prompt may not have it letter for letter.
        prompt = prompt.replace(rule, HIDDEN) if rule in prompt else HIDDEN
    stated = _lasting([rule for rule in stated if rule not in refused])
    return [rule_of(rule, agent, head, at) for rule in stated], len(refused), prompt


def _lasting(stated: list[str]) -> list[str]:
    """Of the rules of a prompt those that no later one of it replaces."""
    if len(stated) < 2:
        return stated
    from plugins.hooks.differing import replaced

    gone = {one for one, _ in replaced([(rule, rule) for rule in stated], set(stated))}
    return [rule for rule in stated if rule not in gone]


def rule_of(text: str, agent: str, head: Entry, at: str) -> Entry:
    """The memory of a rule that a prompt stated: the same rule of the same project is the same memory."""
    from plugins.hooks.standing import rule_key

    one = _id_of(f"{agent}:{head['project']}:rule:{text.casefold()}")
    made = _memory(agent, head, "rule", at, "fact", text, at)
    made["metadata"]["rule"] = True
    return made | {"id": one, "key": f"{rule_key(head['project'])}/{one}"}


def _id_of(name: str) -> str:
    """uuid5 of a name: to load the module uuid, and OpenSSL with hashlib, takes longer than the rest."""
    try:
        from _sha1 import sha1  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from hashlib import sha1
    made = sha1(NAMESPACE + name.encode(), usedforsecurity=False).hexdigest()
    return (
        f"{made[:8]}-{made[8:12]}-5{made[13:16]}-{'89ab'[int(made[16], 16) % 4]}{made[17:20]}-{made[20:32]}"
    )


def _turns(journal: list[Entry]) -> list[list[Entry]]:
    """The entries from each prompt to the next."""
    turns: list[list[Entry]] = []
    for entry in journal:
        if "asked" in entry:
            turns.append([])
        if turns and "at" in entry:
            turns[-1].append(entry)
    return turns


def _text_of_turn(turn: list[Entry]) -> str:
    """A turn as a text, its conclusion first because contexts show the beginning; "" for nothing to remember."""
    asked = turn[0]["asked"]
    said = next((e["said"] for e in reversed(turn) if e.get("said")), "")
    files = list(dict.fromkeys(name for e in turn for name in e.get("files", ()) if "failed" not in e))
    ran: dict[str, bool] = {e["ran"]: "failed" not in e for e in turn if e.get("ran")}
    if not (files or ran) and (len(said) < LEAST_SAID or _is_of_host(asked)):
        return ""
    done = [f"changed {', '.join(files[:MOST_NAMED])}"] if files else []
    done += [
        f"ran {command}" + ("" if well else " (failed)") for command, well in list(ran.items())[-MOST_NAMED:]
    ]
    return "\n".join(
        ([f"Asked: {asked}"] if asked else [])
        + ([f"Concluded: {said}"] if said else [])
        + ([f"Done: {'; '.join(done)}"] if done else [])
    )


def _failures(journal: list[Entry]) -> list[tuple[str, str, str, str, bool]]:
    """Each command that failed: its time, itself, its text, the time of that text, and whether it was repaired.

    Repaired: it succeeded later, after a change or another command, or called in another way. The same success without these
    proves nothing.
    """
    failures: dict[str, tuple[int, Entry]] = {}
    ended: list[tuple[str, str, str, str, bool]] = []
    for nth, entry in enumerate(journal):
        if not (command := entry.get("ran")) or not _is_alone(command):
            continue
        if "failed" in entry:
            failures.setdefault(command_of(command), (nth, entry))
            continue
        for what in sorted(failures.keys() & _parts_of(command, entry)):
            began, failure = failures.pop(what)
            if means := _means(journal[began + 1 : nth], failure["ran"], command):
                text = f"`{failure['ran']}` failed: {failure['failed']}\nIt went through after {means}."
                ended.append((failure["at"], failure["ran"], text, entry["at"], True))
    for _, failure in failures.values():
        text = f"`{failure['ran']}` failed: {failure['failed']}"
        ended.append((failure["at"], failure["ran"], text, failure["at"], False))
    return ended


def _means(between: list[Entry], failed: str, command: str) -> str:
    files = list(dict.fromkeys(name for e in between for name in e.get("files", ()) if "failed" not in e))
    ran = list(
        dict.fromkeys(
            e["ran"]
            for e in between
            if e.get("ran") and "failed" not in e and e["ran"] not in (failed, command)
        )
    )
    if re.sub(REDIRECTED, "", failed).strip() != re.sub(REDIRECTED, "", command).strip():
        ran.append(command)
    means = [f"changing {', '.join(files[:MOST_NAMED])}"] if files else []
    return "; ".join(means + [f"running {one}" for one in ran[-3:]])


def _key_lines(failure: str, rules: Rules) -> str:
    """The most telling lines of a failure: those that name an error, else the last; never one that names a private file."""
    lines = [line.strip() for line in cleaned(failure[-20_000:], 20_000).splitlines() if line.strip()]
    lines = [line for line in lines if not rules.hides_in(line)]
    telling = [line for line in lines if any(word in line.lower() for word in TELLING)]
    return " / ".join((telling or lines)[-3:])[:LONGEST_ERROR]
