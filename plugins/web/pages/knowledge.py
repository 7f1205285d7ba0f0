"""Knowledge: the entries of the team, the decisions to review, and a page for each entry with its history.

End users see no knowledge: it belongs to the agents. `knowledge_edits` changes entries.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from plugins.web.errors import NotThereError
from plugins.web.forms import choice_in, id_in, text_in
from plugins.web.lists import Conditions, Timeline
from plugins.web.pages.knowledge_edits import CONFIDENCES, VERSION, change_entry, in_organisation
from plugins.web.render import page
from plugins.web.viewer import on_behalf, reading, row_of, seen
from plugins.web.web import viewer_of, web_of

TIERS = ("core", "working", "learning")
STATUSES = ("active", "resolved", "archived")
CATEGORIES = (
    "principle", "procedure", "team", "client", "project", "thread", "commitment",
    "decision", "correction", "insight", "outcome",
)  # fmt: skip
LOOKED_AT = 50
"""Open decisions that are checked: the newest. Each is compared with later entries, which takes some milliseconds."""

LIST = Timeline(
    "public.shared_knowledge k",
    "updated_at",
    """
       k.id, k.org_id, k.tier, left(k.category, 60) as category, left(k.title, 300) as title, left(k.content, 400) as content,
       left(coalesce(k.created_by_name, k.created_by), 100) as written_by, k.confidence, k.said_again, k.status, k.updated_at,
       k.outcome -> 'success' = 'true' as succeeded, k.outcome is not null as is_scored, memoryd.corrected_by(k) as corrected_by
""",
)
ONE = f"""
select k.id, k.org_id, k.tier, left(k.category, 200) as category, left(k.title, 1000) as title, k.content, k.created_by,
       left(k.created_by_name, 200) as created_by_name, left(k.source, 1000) as source, k.confidence, k.surprise_score, k.tags,
       k.related_ids, k.decision_context, k.outcome, k.status, k.resolved_at, k.accessed_count, k.last_accessed_at,
       k.expires_at, k.created_at, k.updated_at, k.said_again, k.last_modified_human, memoryd.corrected_by(k) as corrected_by,
       {VERSION} as version
from public.shared_knowledge k
where k.id = $1
"""  # noqa: S608 - an expression of ours
# The entries that it names; and later entries that name it.
NAMED = """
select k.id, k.category, left(k.title, 300) as title, k.status, k.created_at,
       left(coalesce(k.created_by_name, k.created_by), 100) as written_by, k.related_ids @> array[$1::uuid] as names_it,
       k.outcome -> 'success' = 'true' as succeeded
from public.shared_knowledge k
where k.id = any($2::uuid[]) or k.related_ids @> array[$1::uuid] and k.related_ids <> '{}'
order by k.created_at, k.id
limit 200
"""
DECISIONS = f"""
select d.id, d.state, d.because, d.review_by from public.decisions(match_count => {LOOKED_AT}) d
where d.state <> 'open'
"""  # noqa: S608
TITLES = (
    "select k.id, left(k.title, 300) as title from public.shared_knowledge k where k.id = any($1::uuid[])"
)
STATE = "select s.state, s.reason from public.index_state(array[$1::uuid]) s"
REASONS = ("reasoning", "alternatives", "assumptions", "kill_criteria", "review_by")


async def listing(request: Request) -> Response:
    """The entries that match the filters, the last written or used first."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    if viewer.user is not None:
        return page(request, "knowledge/none.html")
    filters = Conditions()
    filters.where_given("k.tier = {}", choice_in(asked, "tier", TIERS))
    if (status := choice_in(asked, "status", STATUSES)) is None:
        filters.where("k.status <> 'archived'")
    filters.where_given("k.status = {}", status)
    filters.scan_for("k.category = {}", text_in(asked, "category"))
    filters.scan_for("(k.created_by = {0} or k.created_by_name = {0})", text_in(asked, "by", longest=200))
    filters.scan_for("k.tags @> array[{}::text]", text_in(asked, "tag", longest=200))
    filters.scan_for("k.org_id = {}", id_in(asked, "org"))
    async with reading(web.database, viewer) as connection:
        listed = await LIST.page(connection, viewer, asked, filters)
    return page(
        request,
        "knowledge/list.html",
        **listed,
        tiers=TIERS,
        statuses=STATUSES,
        categories=CATEGORIES,
    )


async def due(request: Request) -> Response:
    """The decisions to review: contradicted by a later entry, with a criterion that is met, or overdue."""
    web, viewer = web_of(request), viewer_of(request)
    if viewer.user is not None:
        return page(request, "knowledge/none.html")
    org = id_in(request.query_params, "org")
    # Support's role may not call decisions(). Its titles are read below, with support's rights.
    async with on_behalf(web.database, viewer, "shared_knowledge", "select", user=None) as connection:
        await in_organisation(connection, org)
        states = await connection.fetch(DECISIONS)
    async with reading(web.database, viewer) as connection:
        rows = {
            row["id"]: row for row in await connection.fetch(LIST.rows_sql, [state["id"] for state in states])
        }
        reasons = [state["because"] for state in states if state["because"] is not None]
        because = {row["id"]: row["title"] for row in await connection.fetch(TITLES, reasons)}
    return page(
        request,
        "knowledge/due.html",
        states=[state for state in states if state["id"] in rows],
        rows=rows,
        because=because,
        looked_at=LOOKED_AT,
        org=org,
    )


async def detail(request: Request) -> Response:
    """An entry; after a conflict also with the reader's text that was not stored."""
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    if viewer.user is not None:
        raise NotThereError
    async with reading(web.database, viewer) as connection:
        entry = await row_of(connection, ONE, wanted)
        others = await connection.fetch(NAMED, wanted, entry["related_ids"])
        state = await connection.fetchrow(STATE, wanted)
    return page(
        request,
        "knowledge/one.html",
        entry=entry,
        state=state,
        reasons=_reasons(entry["decision_context"]),
        outcome=json.loads(entry["outcome"]) if entry["outcome"] else None,
        names=[row for row in others if row["id"] in entry["related_ids"]],
        history=_history(entry, others),
        corrected_by=next((row for row in others if row["id"] == entry["corrected_by"]), None),
        confidences=CONFIDENCES,
    )


def _reasons(stored: str | None) -> list[tuple[str, list[str]]]:
    """The reasons of a decision, as names and texts. Older rows may have them in any shape."""
    said = json.loads(stored) if stored else {}
    if not isinstance(said, dict):
        return [("reasoning", [json.dumps(said, ensure_ascii=False)])]
    names = [name for name in REASONS if said.get(name)] + [name for name in said if name not in REASONS]
    return [(name, _texts(said[name])) for name in names]


def _texts(value: object) -> list[str]:
    if isinstance(value, list):
        return [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in value]
    return [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]


def _history(entry: Any, others: list[Any]) -> list[tuple[datetime, str, Any]]:
    """The history of an entry, in order: a time, a word, and the other entry, if there is one."""
    events: list[tuple[datetime, str, Any]] = [(entry["created_at"], "noted", None)]
    for row in others:
        if row["names_it"]:
            word = row["category"] if row["category"] in ("correction", "outcome") else "named by"
            events.append((row["created_at"], word, row))
    for name, word in (
        ("resolved_at", "resolved"),
        ("last_modified_human", "changed by a person"),
        ("last_accessed_at", "last used"),
        ("expires_at", "expires, if nobody uses it"),
    ):
        if entry[name] is not None:
            events.append((entry[name], word, None))
    return sorted(events, key=lambda event: event[0])


async def change(request: Request) -> Response:
    """Resolves, scores, archives or corrects an entry, unless it was changed since the form was made."""
    web, viewer, form = web_of(request), viewer_of(request), request.state.form
    wanted: UUID = request.path_params["id"]
    if viewer.user is not None:
        raise NotThereError
    entry = await seen(web.database, viewer, ONE, wanted)
    async with on_behalf(
        web.database, viewer, "shared_knowledge", "update", user=_user_of(entry)
    ) as connection:
        await in_organisation(connection, entry["org_id"])
        to = await change_entry(connection, viewer.name, wanted, form)
    web.log.info("web_knowledge_changed", knowledge_id=str(wanted), action=form.get("do"))
    return RedirectResponse(f"/knowledge/{to}", status_code=303)


def _user_of(entry: Any) -> UUID | None:
    """The user who wrote an entry, where it was one."""
    try:
        return UUID(entry["created_by"])
    except ValueError:
        return None


routes: list[Route] = [
    Route("/knowledge", listing),
    Route("/knowledge/decisions", due),
    Route("/knowledge/{id:uuid}", detail),
    Route("/knowledge/{id:uuid}", change, methods=["POST"]),
]
