"""Writes docs/settings.md and .env.example from daemon/settings/: each setting's name, default, allowed values and meaning.

Promise: what a setting means is said only there; tests/unit/test_settings_document.py fails where one of the two
files says something else.

    python -m docs.describe_settings      writes both files
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import AliasChoices, SecretStr

from daemon.settings import PREFIX, all_settings, allowed_values, sections

DOCUMENT = Path(__file__).with_name("settings.md")
EXAMPLE = Path(__file__).parents[1] / ".env.example"

BEFORE = """\
# Settings

Written from `daemon/settings` by `python -m docs.describe_settings`.

memoryd reads its settings from the environment, or from a `.env` file in the working directory. `MEMORYD_ENV_FILE`, in the
environment, names another file instead. A wrong value stops memoryd with the variable, the value and what is allowed. A
misspelt name is logged (`setting_unknown`), and so is one that memoryd had once (`setting_gone`, with what holds now). Units
are in the names. An empty value counts as none: the default holds.
`.env.example` is the same list, to copy and change.
"""

WHERE = """\
## Which file is read

The working directory may be somebody else's checkout. So these rules hold:

- **Commands of coding agents and MCP clients** (`memoryd mcp`, `memoryd hook`, `memoryd hooks`) read no `.env`. The environment
  names the database, or the file of `MEMORYD_ENV_FILE` does. `memoryd mcp` wants whole paths for that file and a data folder.
- **All other commands** read `.env`, as a deployment's folder has it. Run them in your own folder, or name the database in
  the environment.
- **Where the environment names a database** (`DATABASE_URL`, `MEMORYD_DATABASE_URL`, `MEMORYD_DATABASE_URLS` or
  `MEMORYD_DATA_DIR`), no file names another one.
- **A secret of the environment is never sent to an address from `.env`.** Where `OPENAI_API_KEY` stands in the environment
  and `MEMORYD_OPENAI_BASE_URL` in `.env`, the command ends and says so. It is the same with the secrets and addresses of
  IPFS, Pinata, the chain and Google Drive, and with `PGPASSWORD` or `PGSERVICE` and a URL of a database that has no password.
  Such a URL may name no `service`, and no address or key may quote the environment (`${NAME}`). The headers for a collector
  of traces go to no collector that only `.env` names. Set both in one place, or name the file: `MEMORYD_ENV_FILE=.env`.
- **A `.env` of another user** than the one that memoryd runs as, or root, is not read: it could name a program to run.
"""

FIRST = (
    "database_url", "executor_command", "embedder", "language_model", "openai_api_key", "facts",
    "conversation_retention_minutes", "task_memory_ttl_hours", "http", "backup_dir",
)  # fmt: skip
"""What most installations look at, in the order in which they do."""

AFTER = """\
The settings of OpenAI serve the embedder and the language model. One setting is a row in the database: `surprise_threshold`
([knowledge.md](knowledge.md#what-is-new-surprise)). `MEMORYD_TEST_POSTGRES` belongs to the test suite: see
[CONTRIBUTING.md](../CONTRIBUTING.md).
"""


def write_document() -> str:
    """docs/settings.md."""
    first, *others = (
        f"## {title}\n\n| variable | default | allowed | meaning |\n|---|---|---|---|\n{''.join(map(_row, names))}"
        for title, names in (("The ten that matter first", FIRST), *_groups())
    )
    return "\n".join([BEFORE, first, WHERE, *others, AFTER])


def write_example() -> str:
    """.env.example: every setting, commented out, with its default."""
    parts = ["# Copy to .env and uncomment what you change. docs/settings.md has the same list.\n"]
    for title, names in _groups():
        parts.append(f"# --- {title} ---\n")
        parts += [
            f"# {_meaning(name)}\n# Allowed: {_allowed(name)}.\n# {_variable(name)}={_default(name)}\n"
            for name in names
        ]
    return "\n".join(parts)


def _groups() -> Iterator[tuple[str, Sequence[str]]]:
    for section in sections():
        yield section.heading, list(section.model_fields)


def _row(name: str) -> str:
    alias = all_settings().model_fields[name].validation_alias
    others = alias.choices[1:] if isinstance(alias, AliasChoices) else []
    variable = " or ".join(f"`{one}`" for one in (_variable(name), *others))
    default = f"`{_default(name)}`" if _default(name) else ""
    # An angle bracket would be the start of an HTML tag.
    meaning = _meaning(name).replace("|", "\\|").replace("<", "\\<")
    return f"| {variable} | {default} | {_allowed(name)} | {meaning} |\n"


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _meaning(name: str) -> str:
    return all_settings().model_fields[name].description or ""


def _default(name: str) -> str:
    """The default as it is written in an environment; empty where there is none."""
    default = all_settings().model_fields[name].default
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default is None else str(default)


def _allowed(name: str) -> str:
    if values := allowed_values(name):
        return values
    kind = str(all_settings().model_fields[name].annotation)
    if SecretStr.__name__ in kind:
        return "text, never shown"
    return "a path" if Path.__name__ in kind else "text"


if __name__ == "__main__":
    argparse.ArgumentParser(description="Writes docs/settings.md and .env.example.").parse_args()
    DOCUMENT.write_text(write_document(), encoding="utf-8")
    EXAMPLE.write_text(write_example(), encoding="utf-8")
