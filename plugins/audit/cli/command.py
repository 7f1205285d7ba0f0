"""memoryd audit: the faults of stored memories, and their repair."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import TIMES, id_option, with_database
from daemon.cli.failure import Misuse, sentences
from daemon.cli.output import as_json, number, remark, say, table
from plugins.audit.cli.derived import derived

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings
    from plugins.audit.repair import RepairResult
    from plugins.audit.rule import Extent, Finding, Findings
    from plugins.audit.scan import Rule

audit = typer.Typer(name="audit")
audit.command("derived")(derived)

# Only the beginning of a memory is read. A text with a credential is not shown.
EXCERPTS = """
select m.id, left(m.content, 1000) as said
from public.agent_memory m
where m.id = any($1) and memoryd.credential_in(left(m.content, 20000)) is null
"""


@dataclass(slots=True)
class RuleReport:
    """The findings of a rule, their repair, and the beginnings of their memories."""

    rule: Rule
    found: Findings
    repaired: RepairResult | None
    excerpts: dict[UUID, str]

    def excerpt(self, finding: Finding) -> str | None:
        said = self.excerpts.get(finding.ids[0])
        return None if said is None else said[:200]


@audit.callback(invoke_without_command=True)
def find(  # noqa: PLR0913, PLR0917 - the options of a command
    call: typer.Context,
    agent: str | None = typer.Option(None, help="Only memories of this agent."),
    user: UUID | None = id_option(says="Only memories of this user."),
    since: datetime | None = typer.Option(
        None, formats=TIMES, help="Only memories written since this time (UTC, if it names no offset)."
    ),
    rule: list[str] | None = typer.Option(
        None,
        help="Only what this rule finds; give it more than once for several. Without it all but those with an option.",
    ),
    imported: bool = typer.Option(False, "--imported", help="Only memories imported from another system."),
    system: str | None = typer.Option(
        None, "--from", metavar="SYSTEM", help="Only memories imported from this system, such as mem0."
    ),
    secrets: bool = typer.Option(
        False, "--secrets", help="Search all texts for keys and tokens, too (needs the extra audit)."
    ),
    personal_data: bool = typer.Option(
        False,
        "--personal-data",
        help="Search all texts for personal numbers, too (needs the extra audit).",
    ),
    limit: int = typer.Option(
        20, min=1, help="How many findings of each rule are shown, and repaired by --apply."
    ),
    apply: bool = typer.Option(
        False, "--apply", help="Make the repairs that are shown. Without it nothing is changed."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Find the faults of stored memories, and show what the repair of each finding would do.

    Nothing is changed without --apply. Secret values are never shown. Exit code 1: a finding is not repaired.
    """
    if call.invoked_subcommand is not None:
        return
    from plugins.audit.rule import ALL_SYSTEMS, Extent

    rules = _rules(rule or [], secrets=secrets, personal_data=personal_data)
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    whole = ALL_SYSTEMS if imported else None
    extent = Extent(agent=agent, user=user, since=since, system=whole if system is None else system)

    async def ask(_settings: Settings, database: Database) -> tuple[int, list[RuleReport]]:
        return await _run_rule(database, rules, extent, limit=limit, apply=apply)

    memories, asked = with_database(ask)
    if json:
        as_json({"memories": memories, "rules": [_as_value(one) for one in asked]})
    else:
        _print(memories, asked, apply=apply)
    if any(_remaining(one) for one in asked):
        raise typer.Exit(1)


def _rules(names: list[str], *, secrets: bool, personal_data: bool) -> tuple[Rule, ...]:
    from plugins.audit.find import RULES, chosen
    from plugins.audit.scan import PERSONAL_DATA, SECRETS

    more = [one.name for one, wanted in ((SECRETS, secrets), (PERSONAL_DATA, personal_data)) if wanted]
    with sentences():
        try:
            return chosen([*(names or (rule.name for rule in RULES)), *more])
        except ValueError as error:
            raise Misuse(str(error)) from None


async def _run_rule(
    database: Database, rules: tuple[Rule, ...], extent: Extent, *, limit: int, apply: bool
) -> tuple[int, list[RuleReport]]:
    from plugins.audit.find import count_memories, plain
    from plugins.audit.repair import repair

    asked: list[RuleReport] = []
    async with database.connection() as connection:
        memories = await count_memories(connection, extent)
    for rule in rules:
        # A connection for each rule: earlier repairs are committed, and no rule judges them again.
        async with database.connection() as connection:
            found = await rule.find(connection, extent, limit=limit)
            ids = [i for f in found.findings if not f.spans for i in (*f.ids[:1], f.kept) if i is not None]
            excerpts = plain(await connection.fetch(EXCERPTS, ids)) if ids else {}
            repaired = await repair(connection, rule, found.findings) if apply else None
        asked.append(RuleReport(rule, found, repaired, excerpts))
    return memories, asked


def _remaining(one: RuleReport) -> int:
    return one.found.total - (0 if one.repaired is None else len(one.found.findings))


def _as_value(one: RuleReport) -> dict[str, Any]:
    from plugins.audit.repair import intended

    findings = [
        asdict(finding) | {"intended": intended(finding), "said": one.excerpt(finding)}
        for finding in one.found.findings
    ]
    return {
        "rule": one.rule.name,
        "says": one.rule.says,
        "repairs": one.rule.repairs,
        "found": one.found.total,
        "rows": one.found.rows,
        "findings": findings,
        "repaired": None if one.repaired is None else asdict(one.repaired),
    }


def _print(memories: int, asked: list[RuleReport], *, apply: bool) -> None:
    say(f"Examined {number(memories, 'current memory', 'current memories')}.")
    table(
        ["rule", "found>", "rows>", "of them>", "what it is"],
        [
            [
                one.rule.name, f"{one.found.total:,}", f"{one.found.rows:,}",
                f"{one.found.rows / memories:.1%}" if memories else "-", one.rule.says,
            ]
            for one in asked
        ],
    )  # fmt: skip
    for one in asked:
        if not one.found.findings:
            continue
        say()
        _print_findings(one)
        if one.repaired is not None:
            gone = (
                f"; {number(one.repaired.gone, 'finding')} did not stand any more"
                if one.repaired.gone
                else ""
            )
            say(f"Repaired: {number(one.repaired.rows, 'row')}{gone}.")
    if any(_remaining(one) for one in asked):
        say()
        if apply:
            remark("Some findings remain. Repair more at once with --limit.")
        else:
            remark(
                "Nothing was changed. To make exactly the repairs that are shown, repeat the command with --apply"
            )


def _print_findings(one: RuleReport) -> None:
    from plugins.audit.repair import intended

    shown = len(one.found.findings)
    less = "" if shown == one.found.total else f", {shown:,} of {one.found.total:,}"
    table(
        ["table", "id", "agent", "user", "repair", "why"],
        [
            [
                finding.table, _ids(finding), finding.agent_id or "-", str(finding.user_id or "-"), intended(finding),
                finding.reason + "".join(f": {text}" for text in [one.excerpt(finding)] if text),
            ]
            for finding in one.found.findings
        ],
        title=f"{one.rule.name}{less}: {one.rule.repairs}",
    )  # fmt: skip


def _ids(finding: Finding) -> str:
    more = f" and {len(finding.ids) - 1} more" if len(finding.ids) > 1 else ""
    return f"{finding.ids[0]}{more}"
