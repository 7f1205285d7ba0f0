"""What people change of an entry of knowledge: resolve, score, archive, correct."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from handlers.shared.ports import AnyConnection
from plugins.web.errors import ChangedMeanwhileError
from plugins.web.forms import BadValueError, action_in, choice_in, text_in
from plugins.web.viewer import row_of

CONFIDENCES = ("high", "medium", "low")
# Not updated_at: each use of an entry changes that.
VERSION = """md5(jsonb_build_array(k.title, k.content, k.status, k.confidence, k.outcome)::text)"""

ORGANISATION = "select set_config('memoryd.org_id', $1, true)"
NOW = f"""
select k.category, k.tier, k.status, {VERSION} as version from public.shared_knowledge k where k.id = $1 for update
"""  # noqa: S608 - an expression of ours
RESOLVE = "select public.resolve_knowledge($1::uuid)"
STATUS = "update public.shared_knowledge k set status = $2 where k.id = $1"
SCORE = "update public.shared_knowledge k set outcome = $2::jsonb where k.id = $1"
REWORD = "update public.shared_knowledge k set title = $2, content = $3, confidence = $4 where k.id = $1"
CORRECT = """
select n.what, n.id from public.note_knowledge($2, 'correction', $3, title => $4, related_ids => array[$1::uuid]) n
"""


async def in_organisation(connection: AnyConnection, org: UUID | None) -> None:
    """From now on the transaction is that organisation's; None: of none."""
    await connection.execute(ORGANISATION, "all" if org is None else str(org))


async def change_entry(connection: AnyConnection, by: str, wanted: UUID, form: Mapping[str, str]) -> UUID:
    """Does what the form says; returns the entry to show next. Raises ChangedMeanwhileError, BadValueError."""
    now = await row_of(connection, NOW, wanted)
    if now["version"] != form.get("version"):
        raise ChangedMeanwhileError
    match action_in(form, "resolve", "archive", "activate", "score", "reword", "correct"):
        case "resolve":
            if now["tier"] != "working":
                raise BadValueError("Only a project, a thread or a commitment is resolved.")
            await connection.execute(RESOLVE, wanted)
        case "archive":
            await connection.execute(STATUS, wanted, "archived")
        case "activate":
            await connection.execute(STATUS, wanted, "active")
        case "score":
            if now["category"] != "decision":
                raise BadValueError("Only a decision has an outcome that is set here.")
            await connection.execute(SCORE, wanted, _outcome(form))
        case "reword":
            await connection.execute(REWORD, wanted, *_words(form), _confidence(form))
        case "correct":
            return await _correct(connection, by, wanted, form)
    return wanted


def _outcome(form: Mapping[str, str]) -> str:
    success = form.get("success")
    if success not in ("yes", "no"):
        raise BadValueError("Say whether the decision came out well: yes or no.", field="success")
    outcome: dict[str, Any] = {"success": success == "yes", "scored_at": datetime.now(UTC).isoformat()}
    for name in ("result", "notes"):
        if (said := text_in(form, name, longest=100_000)) is not None:
            outcome[name] = said
    return json.dumps(outcome)


def _words(form: Mapping[str, str]) -> tuple[str, str]:
    title, content = text_in(form, "title"), text_in(form, "content", longest=10_000_000)
    if title is None or content is None:
        raise BadValueError("An entry has a title and a text.", field="title" if title is None else "content")
    return title, content


def _confidence(form: Mapping[str, str]) -> str:
    return choice_in(form, "confidence", CONFIDENCES) or CONFIDENCES[0]


async def _correct(connection: AnyConnection, by: str, wanted: UUID, form: Mapping[str, str]) -> UUID:
    """A correction of its own that names the entry: what it corrects stays, and counts less in recall."""
    content = text_in(form, "content", longest=10_000_000)
    if content is None:
        raise BadValueError("A correction says what is right.", field="content")
    noted = await connection.fetchrow(CORRECT, wanted, content, by, text_in(form, "title"))
    assert noted is not None
    if noted["id"] is None:
        raise BadValueError("This is known already, so no correction was stored.")
    entry: UUID = noted["id"]
    return entry
