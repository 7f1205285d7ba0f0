"""memoryd anchors: lists anchors, checkpoints, ledgers and public keys; makes the key that signs;
`deploy` puts the contract of the ledger evm on a chain."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from daemon.cli.common import settings_or_exit, with_database
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import age, as_json, number, remark, say, table

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings


def deploy(
    contract: str | None = typer.Option(None, help="The address of an existing contract: with --writer."),
    writer: list[str] = typer.Option([], help="An address that may write too; can be given several times."),
    wait: float = typer.Option(300.0, min=0.1, help="Seconds to wait for a block."),
) -> None:
    """Put the contract AgentMemoryAnchor on a chain. The key of the settings becomes its owner, and may write.

    It reads MEMORYD_EVM_RPC_URL, MEMORYD_EVM_CHAIN_ID, MEMORYD_EVM_KEY, and the limits for fees, and
    prints the line for MEMORYD_EVM_CONTRACT. Needs the extra ledgers: see docs/ledgers.md
    """
    with sentences():
        if contract and not writer:
            raise Misuse("--contract needs --writer: an existing contract can only get writers.")
    settings = settings_or_exit(quiet=True)
    with sentences():
        from plugins.trail.build import build_deployer

        try:
            deployer = build_deployer(settings, tell=remark)
        except ImportError as error:
            raise Failure(str(error)) from None
        except ValueError as error:
            raise Misuse(str(error)) from None
        say(f"MEMORYD_EVM_CONTRACT={asyncio.run(deployer.run(contract, writer, wait_seconds=wait))}")


anchors = typer.Typer(name="anchors", invoke_without_command=True)
anchors.command()(deploy)

LIST = """
select a.id, a.category, a.agent_id, a.memory_id, l.position, a.cid, a.chain_tx, a.created_at,
       l.position < coalesce((select max(c.size) from memoryd.trail_checkpoints c), 0) as signed,
       extract(epoch from now() - a.created_at)::float8 as seconds
from memoryd.trail_leaves l
join public.memory_anchors a on a.id = l.anchor_id
order by l.id desc
limit $1
"""
STATE = """
select t.id, t.size, (select count(*) from memoryd.trail_leaves l where l.position is null) as waiting,
       c.size as signed, extract(epoch from now() - c.signed_at)::float8 as seconds,
       (select count(*) from memoryd.trail_checkpoints) as checkpoints
from memoryd.trail t
left join lateral (select c.size, c.signed_at from memoryd.trail_checkpoints c order by c.size desc limit 1) c on true
"""
KEYS = """
select c.verifier, min(c.signed_at) as first_used, bool_or(c.size = l.size) as in_use
from memoryd.trail_checkpoints c cross join (select max(c.size) as size from memoryd.trail_checkpoints c) l
group by c.verifier
order by min(c.size)
"""
"""In use is the one that signed the last checkpoint."""
LEDGERS = """
select g.name, count(*) filter (where r.final) as kept, count(*) filter (where not r.final) as waiting,
       max(r.last_error) filter (where not r.final) as error
from memoryd.trail_ledgers g
left join memoryd.trail_receipts r on r.ledger = g.name
group by g.name
order by g.name
"""


@anchors.callback()
def show(
    context: typer.Context,
    limit: int = typer.Option(20, min=1, max=10_000, help="How many of the newest anchors."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the newest anchors, the last checkpoint, the ledgers and the public keys of the trail."""
    if context.invoked_subcommand is not None:
        return

    async def read(_settings: Settings, database: Database) -> dict[str, Any]:
        [state] = await database.fetch(STATE)
        return {
            "trail": state,
            "keys": await database.fetch(KEYS),
            "ledgers": await database.fetch(LEDGERS),
            "anchors": await database.fetch(LIST, limit),
        }

    found = with_database(read)
    if json:
        as_json(found)
    else:
        _show(found)


@anchors.command("new-key")
def new_key(file: Path = typer.Argument(..., help="A new file; only its owner may read it.")) -> None:
    """Make a key that signs checkpoints. Name its file in MEMORYD_TRAIL_KEY."""
    from plugins.trail.keys import make_key

    with sentences():
        try:
            make_key(file.expanduser())
        except FileExistsError:
            raise Failure(f"{file} exists already. A key is never overwritten: name another file.") from None
        except OSError as error:
            raise Failure(f"{file} cannot be written: {error.strerror}.") from None
    say(f"Made. Set MEMORYD_TRAIL_KEY=file:{file} and start the daemon. Keep a copy apart from the database.")


def _show(found: dict[str, Any]) -> None:
    if found["anchors"]:
        table(
            ["anchor", "category", "agent", "leaf>", "state", "made>", "memory"],
            [
                [
                    str(row["id"]),
                    row["category"],
                    row["agent_id"],
                    "-" if row["position"] is None else str(row["position"]),
                    "signed" if row["signed"] else "waiting",
                    f"{age(row['seconds'])} ago",
                    str(row["memory_id"] or "-"),
                ]
                for row in found["anchors"]
            ],
        )
    else:
        say("There is no anchor.")
    trail = found["trail"]
    signed = "no checkpoint"
    if trail["signed"] is not None:
        signed = (
            f"{number(trail['checkpoints'], 'checkpoint')}, the last signed {age(trail['seconds'])} ago "
            f"over {number(trail['signed'], 'leaf', 'leaves')}"
        )
    say(
        f"Trail {trail['id']}: {number(trail['size'], 'leaf', 'leaves')}, {trail['waiting']:,} without a position, {signed}."
    )
    for key in found["keys"]:
        say(f"{'Public key in use' if key['in_use'] else 'Earlier public key'}: {key['verifier']}")
    for one in found["ledgers"]:
        trouble = f"; last error: {one['error']}" if one["error"] else ""
        say(f"Ledger {one['name']}: {one['kept']:,} kept, {one['waiting']:,} waiting{trouble}")
