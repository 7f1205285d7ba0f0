"""Which facts the rules find in what people say: precision and recall on labelled turns.

    python -m benchmarks.talk.facts [--show]

fact_turns_elsewhere.json has 60 turns in German, French, Spanish and Chinese, written after the rules for these languages.
fact_turns_tuned.json was looked at while the rules were written; fact_turns_held_out.json was written before them, and not.
Each turn has the facts that it states, each as words that the sentence of the fact contains. A fact that is found and not
labelled counts against precision, also where it is true.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness import arguments, report
from memory.facts.find import find_facts

SAID_AT = datetime(2026, 3, 11, 10, tzinfo=UTC)
"""When all turns are said: a Wednesday."""


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument(
        "--show", action="store_true", help="print what is wrong and what is missed, not of the held-out half"
    )
    options = parser.parse_args()
    figures: dict[str, object] = {}
    for name in ("tuned", "held_out", "elsewhere"):
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


if __name__ == "__main__":
    main()
