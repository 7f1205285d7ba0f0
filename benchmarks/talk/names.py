"""Which names the rules find in what people say, and of what kind: precision and recall on 60 labelled messages.

    python -m benchmarks.talk.names [--show]

names.json was written after the rules, by the same person, and the rules were not changed after its figures. Ten of the
messages are in German, French and Spanish. Kinds are counted where the rules give one.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.harness import arguments, report
from memory.facts.names import find_names


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--show", action="store_true", help="print what is wrong and what is missed")
    options = parser.parse_args()
    right = wrong = missed = kinds = kinds_right = 0
    messages = json.loads(Path(__file__).with_name("names.json").read_text(encoding="utf-8"))
    for text, labels in messages:
        left = {name.lower(): kind for name, kind in labels}
        for name in find_names(text):
            kind = left.pop(name.key, None)
            right += kind is not None
            wrong += kind is None
            kinds += name.kind is not None
            kinds_right += name.kind is not None and name.kind == kind
            if options.show and (kind is None or name.kind not in (None, kind)):
                print(f"wrong:  {text!r} -> {name.name} ({name.kind})")
        missed += len(left)
        if options.show and left:
            print(f"missed: {text!r}: {list(left)}")
    report(
        "names found in messages",
        {
            "messages": len(messages),
            "names": right + missed,
            "precision": round(right / (right + wrong), 3),
            "recall": round(right / (right + missed), 3),
            "with a kind": kinds,
            "kinds right": round(kinds_right / kinds, 3),
        },
        options.json,
    )


if __name__ == "__main__":
    main()
