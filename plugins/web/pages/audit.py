"""Audit: the faults of the stored memories, what a repair of each finding would do, and the repair.

The audit runs in the background of this process, and its report is kept for the session that started it. It reads as the
service and gives ids and reasons; the beginnings of the memories that are shown are read with the viewer's rights.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from plugins.audit.find import OPTIONAL, RULES, chosen, count_memories, plain
from plugins.audit.repair import RepairResult, intended, repair
from plugins.audit.rule import ALL_SYSTEMS, SECONDS, Extent, Finding, Findings
from plugins.audit.scan import Rule
from plugins.web.background import Background
from plugins.web.errors import NotThereError
from plugins.web.forms import BadValueError, id_in, text_in, time_in
from plugins.web.pages import audit_derived
from plugins.web.render import page
from plugins.web.viewer import Verb, Viewer, on_behalf, reading
from plugins.web.web import Web, viewer_of, web_of

SHOWN = 50
"""Findings of a rule that are shown, and that one form may repair."""
FINDING = "finding_"
VERBS: Mapping[str, Verb] = {"forget": "delete"}
"""Of repairs, for the record; all others update."""
# Only the beginning of a memory is read. A text with a credential is not shown.
MAY_BE_SHOWN = """
select m.id from public.agent_memory m where m.id = any($1) and memoryd.credential_in(left(m.content, 20000)) is null
"""
EXCERPTS = "select m.id, left(m.content, 1000) as said from public.agent_memory m where m.id = any($1)"


@dataclass(slots=True)
class Report:
    memories: int
    found: list[tuple[Rule, Findings]] = field(default_factory=list)
    repaired: dict[str, RepairResult] = field(default_factory=dict)
    """By rule."""


async def overview(request: Request) -> Response:
    """The form, the progress of the audit, and its findings by rule."""
    work = _work(request)
    return page(
        request,
        "audit/overview.html",
        work=work,
        report=work.result,
        every=len(RULES),
        optional=[rule.name for rule in OPTIONAL],
    )


async def run(request: Request) -> Response:
    web, viewer, form = web_of(request), viewer_of(request), request.state.form
    names = [rule.name for rule in OPTIONAL if form.get(rule.name) == "yes"]
    try:
        rules = chosen([*(rule.name for rule in RULES), *names])
    except ValueError as error:
        raise BadValueError(str(error)) from None
    extent = Extent(
        agent=text_in(form, "agent", longest=200),
        user=id_in(form, "user"),
        since=time_in(form, "since"),
        system=ALL_SYSTEMS if form.get("imported") == "yes" else None,
    )
    work = _work(request)
    if not work.runs:
        audits = web.audits()
        work.start(lambda: _audit(web, viewer, rules, extent, work, audits), lambda _: None)
    return RedirectResponse("/audit", status_code=303)


async def _audit(
    web: Web,
    viewer: Viewer,
    rules: Sequence[Rule],
    extent: Extent,
    work: Background[Report],
    audits: asyncio.Semaphore,
) -> Report:
    async with audits:
        async with audit_derived.as_service(web, viewer) as connection:
            report = Report(await count_memories(connection, extent))
        for done, rule in enumerate(rules):
            work.report(done)
            async with audit_derived.as_service(web, viewer) as connection:
                report.found.append((rule, await rule.find(connection, extent, limit=SHOWN)))
    return report


async def rule(request: Request) -> Response:
    one, found = _found(request)
    return await _shown(request, one, found)


async def mend(request: Request) -> Response:
    web, viewer, form = web_of(request), viewer_of(request), request.state.form
    one, found = _found(request)
    work = _work(request)
    if form.get("began") != _version(work):
        raise BadValueError(
            "The audit has run again since this page was loaded. Read its new findings first."
        )
    names = {name for name, value in form.items() if name.startswith(FINDING) and value == "yes"}
    picked = [finding for finding in found.findings if _name(finding) in names]
    if len(picked) < len(names):
        raise BadValueError("Some of these findings are repaired already. Read the remaining ones first.")
    if not picked:
        raise BadValueError("Choose at least one finding.")
    done = await _mended(web, viewer, one, picked)
    assert work.result is not None
    # The report as it is now: another tab may have repaired other findings meanwhile.
    _, found = _found(request)
    left = [finding for finding in found.findings if _name(finding) not in names]
    gone = [finding for finding in found.findings if _name(finding) in names]
    rows = sum(len(finding.ids) for finding in gone)
    kept = Findings(left, found.total - len(gone), max(0, found.rows - rows))
    work.result.found = [(r, kept if r.name == one.name else f) for r, f in work.result.found]
    before = work.result.repaired.get(one.name, RepairResult(0, 0))
    work.result.repaired[one.name] = RepairResult(before.rows + done.rows, before.gone + done.gone)
    web.log.info("web_audit_repaired", rule=one.name, findings=len(picked), rows=done.rows)
    return RedirectResponse(f"/audit/rules/{one.name}", status_code=303)


async def _mended(web: Web, viewer: Viewer, one: Rule, picked: Sequence[Finding]) -> RepairResult:
    users = sorted({finding.user_id for finding in picked if finding.user_id is not None})
    verb = VERBS.get(picked[0].repair, "update")
    async with on_behalf(
        web.database,
        viewer,
        picked[0].table,
        verb,
        user=users[0] if users else None,
        others=users[1:],
        seconds=SECONDS,
    ) as connection:
        return await repair(connection, one, picked)


async def _shown(request: Request, one: Rule, found: Findings) -> Response:
    web, viewer, work = web_of(request), viewer_of(request), _work(request)
    ids = [i for f in found.findings if not f.spans for i in (*f.ids[:1], f.kept) if i is not None]
    if viewer.user is None:
        async with audit_derived.as_service(web, viewer) as connection:
            ids = [row["id"] for row in await connection.fetch(MAY_BE_SHOWN, ids)]
    async with reading(web.database, viewer) as connection:
        said = plain(await connection.fetch(EXCERPTS, ids))
    return page(
        request,
        "audit/rule.html",
        rule=one,
        found=found,
        rows=[(_name(finding), finding, intended(finding)) for finding in found.findings],
        said=said,
        repaired=None if work.result is None else work.result.repaired.get(one.name),
        began=_version(work),
    )


def _found(request: Request) -> tuple[Rule, Findings]:
    report = _work(request).result
    for one, found in [] if report is None else report.found:
        if one.name == request.path_params["rule"]:
            return one, found
    raise NotThereError


def _work(request: Request) -> Background[Report]:
    """The audit of this session; nobody else sees its findings."""
    return Background.of(request.state.session.kept, "audit", web_of(request).log)


def _name(finding: Finding) -> str:
    """The version in the form: the same in each tab, also after a repair in another one."""
    what = f"{finding.table} {finding.ids} {finding.kept} {finding.reason}"
    return FINDING + hashlib.sha256(what.encode("utf-8", "replace")).hexdigest()[:16]


def _version(work: Background[Report]) -> str:
    return "" if work.ended_at is None else work.ended_at.isoformat()


routes: list[Route] = [
    Route("/audit", overview),
    Route("/audit", run, methods=["POST"]),
    Route("/audit/rules/{rule}", rule),
    Route("/audit/rules/{rule}", mend, methods=["POST"]),
    *audit_derived.routes,
]
