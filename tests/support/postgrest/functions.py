"""Every documented function as a client calls it over HTTP: by named arguments, with text alone where a function takes text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import asyncpg

from tests.support.repository import ROOT
from tests.support.rows import insert, remember

ROW = re.compile(r'^\| `"?([\w.-]+)"?\((.*?)\)` \| (.*?) \|', re.MULTILINE)
SECRET = "seven"
"""A word of every text of a user of these tests."""


class Refusal(NamedTuple):
    """An error, as it comes over HTTP."""

    status: int
    code: str


ANONYMOUS, REFUSED = Refusal(401, "42501"), Refusal(403, "42501")
UNAUTHORIZED = Refusal(401, "PT401")

Ids = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Documented:
    """A row of the table of functions in docs/sql.md."""

    name: str
    arguments: tuple[str, ...]
    """The names that the row gives; "..." stands for those of recall()."""
    returns: str


def documented() -> list[Documented]:
    """The functions that docs/sql.md names, of schema public: PostgREST exposes no other."""
    text = (ROOT / "docs/sql.md").read_text("utf-8")
    section = text[text.index("\n## Functions") :].split("\n## ", 2)[1]
    rows = ROW.findall(section)
    assert rows
    return [
        Documented(name, tuple(one.split("=")[0].strip() for one in said.split(",") if one.strip()), returns)
        for name, said, returns in rows
        if not name.startswith("memoryd.")
    ]


async def world(connection: asyncpg.Connection) -> dict[str, str]:
    """A user with a row of each kind that functions take ids of; ids by the names of what they are of."""
    user, session = uuid4(), uuid4()
    mine: dict[str, object] = {"user_id": user}
    said = {"session_id": session, "role": "user", "content": f"does the ferry leave at {SECRET}?"}
    project: dict[str, object] = {"created_by": str(user), "tier": "working", "title": f"Ferry {user}"}
    project |= {"category": "project", "content": f"a ferry at {SECRET}"}
    decision = project | {"category": "decision", "content": f"leave at {SECRET}"}
    ids = {
        "message": await insert(connection, "conversation_messages", mine | said),
        "memory": await remember(connection, f"the ferry leaves at {SECRET}", **mine),
        "query": await insert(connection, "memory_queries", mine),
        "command": await insert(
            connection,
            "agent_commands",
            mine | {"agent_id": f"keeper-{user}", "message": f"leave at {SECRET}", "status": "ready"},
        ),
        "knowledge": await insert(connection, "shared_knowledge", project),
        "decision": await insert(connection, "shared_knowledge", decision),
        "user": user,
        "session": session,
    }
    agent = f"runner-{user}"
    await insert(connection, "agent_commands", mine | {"agent_id": agent, "message": "go", "status": "ready"})
    ids["running"] = await connection.fetchval("select id from claim_command($1)", agent)
    return {name: str(one) for name, one in ids.items()}


@dataclass(frozen=True, slots=True)
class Sample:
    """A call that answers something, and who else may make it."""

    arguments: Callable[[Ids], dict[str, Any]]
    users: bool = True
    """Whether end users may call it; services may call all."""
    to_service: Refusal | None = None
    """The error that a service gets, which has no user."""
    to_others: Any = field(default_factory=list)
    """What a user gets who gives another user's ids: a result, an error, or None: whatever others may know."""
    tells: bool = True
    """Whether its result tells a user of their own rows."""
    takes_away: bool = False
    """Whether it cannot be called a second time."""
    by_get: bool = False
    """Whether it answers where nothing can be written."""
    indexed: bool = False
    """Whether it finds only what has been embedded."""


def _service(arguments: Callable[[Ids], dict[str, Any]]) -> Sample:
    return Sample(arguments, users=False, to_others=REFUSED)


_ASKED = "When does the ferry leave?"

SAMPLES: Mapping[str, Sample] = MappingProxyType(
    {
        "build_context": Sample(
            lambda _: {"agent_id": "alice", "message": _ASKED}, to_others="", by_get=True
        ),
        "classify_message": Sample(
            lambda _: {"message": _ASKED}, to_others=None, tells=False, by_get=True
        ),
        "explain_context": Sample(lambda _: {"agent_id": "alice", "message": _ASKED}, to_others=None),
        "secrets_key": Sample(lambda _: {}, to_others=None, tells=False, by_get=True),
        "recall": Sample(lambda _: {"query": "ferry"}, by_get=True),
        "search_keys": Sample(lambda ids: {"prefix": "notes/", "user_id": ids["user"]}, tells=False),
        "ask_memory": Sample(
            lambda _: {"kind": "read", "query": "ferry", "options": {"match_threshold": 0.1}},
            to_service=UNAUTHORIZED, to_others={"by": "meaning", "result": []}, indexed=True,
        ),
        "explain_recall": Sample(lambda _: {"query": "ferry"}, by_get=True),
        "match_memory": Sample(
            lambda ids: {"query": "ferry", "match_threshold": 0.1, "filter_user_id": ids["user"]},
            by_get=True,
            indexed=True,
        ),
        "remember": Sample(
            lambda ids: {"content": "the ferry is late", "agent_id": "alice", "user_id": ids["user"]},
            to_others=REFUSED, tells=False,
        ),
        "memory_as_of": Sample(lambda ids: {"as_of": "2099-01-01", "user_id": ids["user"]}),
        "names_said": Sample(lambda ids: {"user_id": ids["user"]}, tells=False),
        "last_recall": Sample(lambda _: {}, to_others=None, tells=False),
        "mark_useful": Sample(
            lambda ids: {"query_id": ids["query"], "useful": True}, to_others=Refusal(500, "P0002"), tells=False
        ),
        "agent-memory-read": Sample(
            lambda _: {"query": "ferry", "match_threshold": 0.1},
            to_service=UNAUTHORIZED, to_others={"results": [], "by": "meaning"}, indexed=True,
        ),
        "agent-memory-write": Sample(
            lambda _: {"content": "the ferry is late", "memory_type": "task_memory"},
            to_service=UNAUTHORIZED, to_others=None, tells=False,
        ),
        "index_state": Sample(lambda ids: {"ids": [ids["memory"]]}),
        "supersede_memory": Sample(
            lambda ids: {"old_id": ids["memory"], "new_content": "it leaves at nine"}, takes_away=True, to_others=REFUSED
        ),
        "load_context": Sample(lambda ids: {"session_id": ids["session"]}, by_get=True),
        "reset_session": Sample(lambda ids: {"session_id": ids["session"]}, takes_away=True, to_others=0),
        "forget": Sample(lambda ids: {"ids": [ids["memory"]]}, takes_away=True, to_others=0),
        "export_user_memory": Sample(
            lambda ids: {"user_id": ids["user"]}, to_others=REFUSED, by_get=True
        ),
        "erase_user_memory": Sample(lambda ids: {"user_id": ids["user"]}, takes_away=True, to_others=REFUSED),
        "extract_keywords": Sample(lambda _: {"body": "the ferry leaves"}, to_others=None, tells=False, by_get=True),
        "claim_command": _service(lambda ids: {"agent_id": f"keeper-{ids['user']}"}),
        "renew_command": _service(lambda ids: {"command_id": ids["running"], "started_at": "2026-03-01T12:00:00Z"}),
        "complete_command": _service(lambda ids: {"command_id": ids["running"], "output": "left"}),
        "search_shared_knowledge": _service(lambda _: {"query": "ferry", "match_threshold": 0.1}),
        "note_knowledge": _service(
            lambda ids: {"content": f"Boats of {ids['user']} need oil", "category": "team", "created_by": "keeper"}
        ),
        "decisions": _service(lambda ids: {"agent_id": ids["user"]}),
        "decision_rates": _service(lambda _: {}),
        "resolve_knowledge": _service(lambda ids: {"knowledge_id": ids["knowledge"]}),
        "touch_knowledge": _service(lambda ids: {"knowledge_id": ids["knowledge"]}),
        "expire_low_confidence": _service(lambda _: {}),
        "cleanup_expired_memory": _service(lambda _: {"max_rows": 1}),
        "wait_until_idle": _service(lambda _: {"seconds": 0}),
    }
)  # fmt: skip


def is_result(kind: str, status: int, body: Any) -> bool:
    """Whether an answer is what docs/sql.md says that a function returns."""
    if kind == "void":
        return status == 204 and body is None
    fits: Mapping[str, Callable[[Any], bool]] = {
        "rows": _is_rows,
        "setof agent_commands": _is_rows,
        "row": lambda many: _is_rows(many) and len(many) == 1,
        "jsonb": lambda one: isinstance(one, dict),
        "text": lambda one: isinstance(one, str),
        "text[]": lambda many: isinstance(many, list) and all(isinstance(one, str) for one in many),
        "uuid": lambda one: one is None or bool(UUID(one)),
        "boolean": lambda one: isinstance(one, bool),
        "bigint": lambda one: isinstance(one, int) and not isinstance(one, bool),
    }
    return status == 200 and fits[kind](body)


def _is_rows(many: Any) -> bool:
    return isinstance(many, list) and all(isinstance(one, dict) for one in many)
