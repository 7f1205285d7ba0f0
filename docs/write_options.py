"""Writes the options of both clients from the one table of them, migrations/functions/search/options.sql.

Promise: tests/integration/recall/test_options.py fails where a client's file says something else.

    python -m docs.write_options      writes both files
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from daemon.db.migration_files import ROLES, Of, Option, options_of

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / "clients/python/src/memoryd_client/_options.py"
TYPESCRIPT = ROOT / "clients/typescript/src/recallOptions.ts"
WRITTEN = "Written from migrations/functions/search/options.sql by `python -m docs.write_options`."

IN_PYTHON = {
    "whole": "int", "number": "float", "flag": "bool", "uuid": "UUID | str", "time": "datetime",
    "roles": "Sequence[Role]", "names": "Sequence[str]", "text": "str",
}  # fmt: skip
IN_TYPESCRIPT = {
    "whole": "number", "number": "number", "flag": "boolean", "uuid": "string", "time": "Date | string",
    "roles": "(" + " | ".join(f'"{role}"' for role in ROLES) + ")[]", "names": "string[]", "text": "string",
}  # fmt: skip


def in_python() -> str:
    """The options of the client in Python."""
    table = "".join(f'    "{o.name}": ("{o.kind}", {o.lowest}, {o.highest}),\n' for o in _all())
    prompt = "".join(f'    "{o.name}": {o.in_prompt!r},\n' for o in _all() if o.in_prompt is not None)
    return f'''"""The options of recall and of contexts.

{WRITTEN}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from memoryd_client._types import Role


{_typed("recall")}

{_typed("context")}

OPTIONS: Mapping[str, tuple[str, int | None, int | None]] = {{
{table}}}
"""By name: what a value is, and its bounds."""

PROMPT: RecallOptions = {{
{prompt}}}
"""The options of ChatMemory.prompt() unless given."""
'''


def in_typescript() -> str:
    """Those of the client in TypeScript."""
    prompt = ", ".join(
        f"{_camel(o.name)}: {str(o.in_prompt).lower()}" for o in _all() if o.in_prompt is not None
    )
    return f"""// The options of recall and of contexts. {WRITTEN}

{_interface("recall")}
{_interface("context")}
/** The options of `prompt` unless given. */
export const PROMPT: RecallConditions = {{ {prompt} }};
"""


def _all() -> list[Option]:
    of_recall = list(options_of("recall"))
    return of_recall + [option for option in options_of("context") if option not in of_recall]


def _typed(what: Of) -> str:
    lines = "".join(
        f'    {o.name}: {IN_PYTHON[o.kind]} | None\n    """{o.help}"""\n' for o in options_of(what)
    )
    of = "recall()" if what == "recall" else "build_context()"
    return f'class {what.title()}Options(TypedDict, total=False):\n    """Those of {of}."""\n\n{lines}'


def _interface(what: Of) -> str:
    lines = "".join(
        f"  /** {o.help} */\n  {_camel(o.name)}?: {IN_TYPESCRIPT[o.kind]};\n" for o in options_of(what)
    )
    return f"export interface {what.title()}Conditions {{\n{lines}}}\n"


def _camel(name: str) -> str:
    return re.sub("_(.)", lambda found: found[1].upper(), name)


def main() -> None:
    """Writes both files."""
    argparse.ArgumentParser(description="Writes the options of both clients.").parse_args()
    PYTHON.write_text(in_python(), "utf-8")
    TYPESCRIPT.write_text(in_typescript(), "utf-8")


if __name__ == "__main__":
    main()
