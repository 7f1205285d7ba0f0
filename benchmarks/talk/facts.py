"""Which facts the rules find in what people say: precision and recall on labelled turns.

    python -m benchmarks.talk.facts [--show] [--model] [--chats FILE [--sentences FILE]]

fact_turns_elsewhere.json has 60 turns in German, French, Spanish and Chinese, written after the rules for these languages.
fact_turns_tuned.json was looked at while the rules were written; fact_turns_held_out.json was written before them, and looked
at once after the rules were tried on it. fact_turns_messy.json has 551 as people type them, in five languages, most of which
state nothing: each batch was written before it was tried, then looked at. fact_chats.json is for --chats.
Each turn has the facts that it states, each as words that the sentence of the fact contains. A fact that is found and not
labelled counts against precision, also where it is true.

--model: what a language model would be asked about the messy turns; none is called.

--chats: conversations of several sessions, replayed through the finder and the comparison with what is known that the daemon
uses. A JSON list of {user, sessions: [[[speaker or null, message]]], expect, superseded, never}: pairs of a label and a regular
expression. `expect` must be true of a current memory at the end, `superseded` of none (and has been of an older one), `never`
of none that was ever stored. --sentences: {"facts": [...], "no_facts": [...]}, messages that state something, or nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from benchmarks.harness import arguments, report
from memory.facts.find import find_facts
from memory.facts.merge import Known, Source, compared, merge
from memory.facts.stated import personal
from providers.openai_language_model import FACTS

CHATS_AT = datetime(2026, 11, 9, 10, tzinfo=UTC)
"""When the first session of a conversation is: a Monday. The others are a week apart."""
SAID_AT = datetime(2026, 3, 11, 10, tzinfo=UTC)
"""When all turns are said: a Wednesday."""


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument(
        "--show", action="store_true", help="print what is wrong and what is missed, not of the held-out half"
    )
    parser.add_argument("--chats", type=Path, help="conversations, replayed session by session")
    parser.add_argument("--sentences", type=Path, help="sentences that state something, or nothing")
    parser.add_argument(
        "--model",
        action="store_true",
        help="print what a language model would be asked about the messy turns",
    )
    options = parser.parse_args()
    figures: dict[str, object] = {}
    if options.model:
        report("turns shown to a language model", _asked(), options.json)
        return
    if options.chats is not None:
        chats = json.loads(options.chats.read_text(encoding="utf-8"))
        report("facts at the end of conversations", replayed(chats, show=options.show), options.json)
    if options.sentences is not None:
        sentences = json.loads(options.sentences.read_text(encoding="utf-8"))
        report("facts found in sentences", _found(sentences, show=options.show), options.json)
    if options.chats is not None or options.sentences is not None:
        return
    for name in ("tuned", "held_out", "elsewhere", "messy"):
        file = Path(__file__).with_name(f"fact_turns_{name}.json")
        turns = json.loads(file.read_text(encoding="utf-8"))
        right, wrong, missed = _count(turns, show=options.show and name != "held_out")
        figures |= {
            f"{name}: turns": len(turns),
            f"{name}: facts": right + missed,
            f"{name}: precision": round(right / (right + wrong), 3),
            f"{name}: recall": round(right / (right + missed), 3),
        }
    report("facts found in turns", figures, options.json)


def _count(turns: list[tuple[str, list[str]]], *, show: bool) -> tuple[int, int, int]:
    """How many facts are right, how many are not labelled, and how many labelled ones were not found."""
    right = wrong = missed = 0
    for text, labels in turns:
        left = list(labels)
        for fact in find_facts(text, SAID_AT):
            if fact.only_ends or fact.needs:
                continue  # it says nothing without what is known already
            label = next((one for one in left if all(w in fact.content.lower() for w in one.split())), None)
            if label is None:
                wrong += 1
            else:
                right += 1
                left.remove(label)
            if show and label is None:
                print(f"wrong:  {text!r} -> {fact.content}")
        missed += len(left)
        if show and left:
            print(f"missed: {text!r}: {left}")
    return right, wrong, missed


def _asked() -> dict[str, object]:
    """Prints the instructions and each message as it is shown; no model is called."""
    turns = json.loads(Path(__file__).with_name("fact_turns_messy.json").read_text(encoding="utf-8"))
    shown = [text for text in (personal(text) for text, _ in turns) if text]
    print(FACTS, *shown, sep="\n\n")
    return {"turns": len(turns), "shown": len(shown)}


@dataclass(slots=True)
class Memories:
    """What a conversation has left, in the shape in which the daemon's handler keeps it."""

    current: dict[UUID, Known] = field(default_factory=dict)
    past: list[Known] = field(default_factory=list)

    def hear(self, source: Source, text: str) -> None:
        """A message of the user."""
        found = [(source, fact) for fact in find_facts(text, source.said_at)]
        families = compared([fact for _, fact in found])
        known = [one for one in self.current.values() if one.slot.split(":", 1)[0] in families]
        changes = merge(found, known, iter(uuid4, None))
        for new in changes.new:
            self.current[new.memory_id] = new.known
        for older, _, _ in changes.superseded:
            self.past.append(self.current.pop(older))
        for memory in changes.ended:
            self.past.append(self.current.pop(memory))


def replayed(chats: Sequence[Mapping[str, Any]], *, show: bool) -> dict[str, object]:
    totals = dict.fromkeys(("expect", "superseded", "never", "stored", "labelled"), 0)
    right = {"expect": 0, "superseded": 0, "never": 0}
    for chat in chats:
        memories = told(chat["sessions"])
        now = [one.content for one in memories.current.values()]
        before = [one.content for one in memories.past]
        for part in right:
            for label, expression in chat[part]:
                is_now, was = (
                    any(re.search(expression, c, re.IGNORECASE) for c in cs) for cs in (now, before)
                )
                good = {"expect": is_now, "superseded": was and not is_now, "never": is_now or was}[part]
                totals[part] += 1
                right[part] += good
                if show and good == (part == "never"):
                    print(f"{chat['user']}: {part}: {label}")
        labels = [expression for part in ("expect", "superseded") for _, expression in chat[part]]
        totals["stored"] += len(now + before)
        totals["labelled"] += sum(
            any(re.search(one, c, re.IGNORECASE) for one in labels) for c in now + before
        )
        if show:
            print(*(f"  {chat['user']} now: {c}" for c in now), sep="\n")
            print(*(f"  {chat['user']} before: {c}" for c in before), sep="\n")
    return {
        "current at the end": round(right["expect"] / totals["expect"], 3),
        "stored": totals["stored"],
        "stored: share that a label names": round(totals["labelled"] / max(1, totals["stored"]), 3),
        "superseded": f"{right['superseded']} of {totals['superseded']}",
        "never, but stored": right["never"],
    }


def told(sessions: Sequence[Sequence[tuple[str | None, str]]]) -> Memories:
    memories, user = Memories(), uuid4()
    for week, messages in enumerate(sessions):
        session = uuid4()
        for index, (speaker, text) in enumerate(messages):
            said_at = CHATS_AT + timedelta(days=7 * week, minutes=index)
            memories.hear(Source(uuid4(), session, index, user, "bot", None, speaker, said_at), text)
    return memories


def _found(sentences: Mapping[str, Sequence[str]], *, show: bool) -> dict[str, object]:
    figures: dict[str, object] = {}
    for part, texts in sentences.items():
        found = {text: find_facts(text, CHATS_AT) for text in texts}
        figures[part] = f"{sum(map(bool, found.values()))} of {len(found)}"
        if show:
            for text, facts in found.items():
                print(f"{part}: {text} -> {[fact.content for fact in facts]}")
    return figures


if __name__ == "__main__":
    main()
