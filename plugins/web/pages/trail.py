"""The trail: the anchors, the ledgers that keep them, and whether they still hold.

An end user sees the anchors of their own memories. The log and its check are for the operator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from plugins.trail.cli.anchors import KEYS
from plugins.trail.reading import ProofError, Verification, prove, read_keys, verify_all
from plugins.trail.rules.note import BadNote
from plugins.trail.rules.proof import check
from plugins.web.background import Background
from plugins.web.forms import BadValueError
from plugins.web.lists import AT_ONCE, WRONG_PAGE, rows_of
from plugins.web.render import page
from plugins.web.viewer import ids_found, reading, seen
from plugins.web.web import Web, viewer_of, web_of

MOST_SHOWN = 200
"""Breaks that the page lists."""
# The log belongs to the daemon and has no content; the rows are read with the viewer's rights.
LEAVES = f"""
select l.id, l.anchor_id, l.position, l.salt is null as erased, c.size, c.signed_at,
       (select count(*) from memoryd.trail_receipts r where r.anchor_id = l.anchor_id and r.final) as kept
from memoryd.trail_leaves l
left join lateral (
    select c.size, c.signed_at from memoryd.trail_checkpoints c where c.size > l.position order by c.size limit 1) c on true
where $1::bigint is null or l.id < $1
order by l.id desc
limit {AT_ONCE + 1}
"""  # noqa: S608 - a constant of ours
OWN = f"""
select a.id
from public.agent_memory m
join public.memory_anchors a on a.memory_id = m.id
where m.user_id = $1
order by a.created_at desc nulls last, a.id desc
limit {AT_ONCE}
"""  # noqa: S608 - a constant of ours
ROWS = rows_of(
    "public.memory_anchors a",
    "a.id, a.category, a.agent_id, a.created_at, left(a.payload ->> 'content', 600) as content",
)
ONE = """
select a.id, a.category, a.agent_id, a.memory_id, a.created_at, a.payload, a.cid, a.chain_tx,
       encode(a.content_hash, 'hex') as content_hash, encode(a.previous_hash, 'hex') as previous_hash,
       m.content as says_now,
       a.payload ? 'content' and a.payload ->> 'content' is distinct from m.content
           and m.id is not null as was_changed
from public.memory_anchors a
left join public.agent_memory m on m.id = a.memory_id
where a.id = $1
"""
LEAF = """
select l.position, encode(l.leaf, 'hex') as leaf, l.salt is null as erased, c.size, c.signed_at, c.note
from memoryd.trail_leaves l
left join lateral (
    select c.size, c.signed_at, c.note from memoryd.trail_checkpoints c
    where c.size > l.position order by c.size limit 1) c on true
where l.anchor_id = $1
"""
# A checkpoint in a ledger proves all leaves before its end.
KEPT = """
select g.name, own.reference as own_reference, own.final as own_final, own.last_error as own_error,
       later.size, later.reference
from memoryd.trail_ledgers g
left join memoryd.trail_receipts own on own.ledger = g.name and own.anchor_id = $1
left join lateral (
    select c.size, r.reference
    from (select c.size from memoryd.trail_checkpoints c where c.size > $2 order by c.size limit 200) c
    cross join lateral (
        select r.reference from memoryd.trail_receipts r
        where r.ledger = g.name and r.key = 'checkpoint/' || c.size and r.final limit 1) r
    order by c.size limit 1) later on true
order by g.name
"""
STATE = """
select t.id, t.size, c.size as signed, c.signed_at,
       (select count(*)
        from (select from memoryd.trail_leaves l where l.position is null order by l.id limit 2000) w) as waiting
from memoryd.trail t
left join lateral (select c.size, c.signed_at from memoryd.trail_checkpoints c order by c.size desc limit 1) c on true
"""
MOST_COUNTED = 2000
LEDGERS = f"""
select g.name, kept.n as kept, waiting.n as waiting, waiting.trouble
from memoryd.trail_ledgers g
cross join lateral (
    select count(*) as n
    from (select from memoryd.trail_receipts r where r.ledger = g.name and r.final order by r.key limit {MOST_COUNTED}) r) kept
cross join lateral (
    select count(*) as n, max(r.last_error) as trouble
    from (select r.last_error from memoryd.trail_receipts r
          where r.ledger = g.name and not r.final order by r.next_at limit {MOST_COUNTED}) r) waiting
order by g.name
"""  # noqa: S608 - a constant of ours


async def listing(request: Request) -> Response:
    """The newest anchors, and for the operator the state of the log."""
    web, viewer = web_of(request), viewer_of(request)
    log: dict[str, Any] = {"state": None, "leaves": {}, "next_page": None}
    ids: list[UUID] = []
    if viewer.user is None:
        leaves = await web.database.fetch(LEAVES, _position(request.query_params))
        shown = leaves[:AT_ONCE]
        ids = [leaf["anchor_id"] for leaf in shown]
        log = {
            "leaves": {leaf["anchor_id"]: leaf for leaf in shown},
            "next_page": str(shown[-1]["id"]) if len(leaves) > AT_ONCE else None,
            "state": await web.database.fetchrow(STATE),
            "keys": (await web.database.fetch(KEYS))[::-1],
            "ledgers": await web.database.fetch(LEDGERS),
            "check": _check(web),
            "most": MOST_SHOWN,
            "most_counted": MOST_COUNTED,
        }
    async with reading(web.database, viewer) as connection:
        if viewer.user is not None:
            ids = await ids_found(connection, viewer, OWN, viewer.user)
        rows = await connection.fetch(ROWS, ids)
    return page(request, "trail/list.html", rows=rows, **log)


def _position(asked: Mapping[str, str]) -> int | None:
    before = asked.get("before", "")
    if not before:
        return None
    if not before.isascii() or not before.isdigit() or len(before) > 18:
        raise BadValueError(WRONG_PAGE)
    return int(before)


async def detail(request: Request) -> Response:
    return await _shown(request, says=None)


async def _shown(request: Request, *, says: Mapping[str, Any] | None) -> Response:
    """`says`: the result of its verification, where one was requested."""
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    anchor = await seen(web.database, viewer, ONE, wanted)
    leaf, kept = None, []
    if viewer.user is None:
        leaf = await web.database.fetchrow(LEAF, wanted)
        kept = await web.database.fetch(KEPT, wanted, None if leaf is None else leaf["position"])
    payload = json.loads(anchor["payload"])
    return page(
        request,
        "trail/one.html",
        anchor=anchor,
        payload=json.dumps(payload, indent=2, ensure_ascii=False),
        content=payload.get("content") if isinstance(payload, dict) else None,
        leaf=leaf,
        kept=kept,
        says=says,
    )


async def verify_one(request: Request) -> Response:
    """Makes the proof of one anchor, and checks it: what `memoryd prove` and `memoryd verify FILE` do."""
    web, viewer = web_of(request), viewer_of(request)
    _must_be_support(viewer.user)
    wanted: UUID = request.path_params["id"]
    # Read first: the read is recorded, and a wrong id is answered as on the page itself.
    await seen(web.database, viewer, ONE, wanted)
    return await _shown(request, says=await _verified(web, wanted))


async def _verified(web: Web, anchor: UUID) -> Mapping[str, Any]:
    try:
        async with web.database.connection() as connection:
            proof = await prove(connection, anchor, with_row=True)
        shown = check(proof, await read_keys(web.database))
    except ProofError as error:
        return {"holds": None, "why": str(error)}
    except BadNote as error:
        return {"holds": False, "why": str(error)}
    return {"holds": True, "shown": shown, "row": proof.row is not None}


async def verify(request: Request) -> Response:
    """Starts a check of the whole trail, as `memoryd verify --all` does."""
    web, viewer = web_of(request), viewer_of(request)
    _must_be_support(viewer.user)
    check, ask = _check(web), web.settings if request.state.form.get("ledgers") == "yes" else None

    async def work() -> Verification:
        return await verify_all(web.database, await read_keys(web.database), tell=check.report, ask=ask)

    check.start(work, lambda error: str(error) if isinstance(error, ValueError) else None)
    return RedirectResponse("/trail#check", status_code=303)


def _check(web: Web) -> Background[Verification]:
    return Background.of(web.kept, "verify", web.log)


def _must_be_support(user: UUID | None) -> None:
    if user is not None:
        raise BadValueError("Only the operator checks the trail: memoryd verify.")


routes: list[Route] = [
    Route("/trail", listing),
    Route("/trail/verify", verify, methods=["POST"]),
    Route("/trail/{id:uuid}", detail),
    Route("/trail/{id:uuid}", verify_one, methods=["POST"]),
]
