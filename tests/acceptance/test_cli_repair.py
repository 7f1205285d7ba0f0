"""memoryd doctor tells what of memoryd's own somebody changed, and memoryd migrate --repair makes it again."""

from __future__ import annotations

import asyncpg

from tests.support.processes.commands import Commands, Finished

DAMAGE = {
    "policy service on public.agent_memory is missing": "drop policy service on agent_memory",
    "trigger stamp_memory on public.agent_memory is changed": "alter table agent_memory disable trigger stamp_memory",
    "rights of memoryd_user on table public.chat_groups is missing": "revoke all on chat_groups from memoryd_user",
    "row-level-security on public.agent_memory is changed": "alter table agent_memory no force row level security",
    "function memoryd.caller_is_service() is changed":
        "create or replace function memoryd.caller_is_service() returns boolean language sql stable as 'select true'",
    "view memoryd.index_states is missing": "drop view memoryd.index_states cascade",
    "rights of public on function public.export_user_memory(user_id uuid) is new":
        "grant execute on function export_user_memory to public",
}  # fmt: skip


def objects(found: Finished) -> dict[str, str]:
    """The check of what the database is made of."""
    (one,) = [check for check in found.json if check["name"] == "objects"]
    return one  # type: ignore[no-any-return]


async def test_damage_is_told_and_repaired(memoryd: Commands, connection: asyncpg.Connection) -> None:
    for damage in DAMAGE.values():
        await connection.execute(damage)
    wrong = objects(await memoryd("doctor", "--json"))
    assert wrong["verdict"] == "problem"
    assert [one for one in DAMAGE if one not in wrong["found"]] == []
    assert wrong["advice"] == "Run: memoryd migrate --repair"
    # What nobody has asked for changes nothing.
    assert (await memoryd("migrate")).out == "The schema is up to date.\n"
    assert objects(await memoryd("doctor", "--json")) == wrong
    done = await memoryd("migrate", "--repair")
    assert done.code == 0, done.err
    assert objects(await memoryd("doctor", "--json"))["verdict"] == "ok"


async def test_what_a_table_lacks_is_still_told_after_a_repair(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute("alter table memory_queries drop column useful cascade")
    for arguments in (("doctor", "--json"), ("migrate", "--repair"), ("doctor", "--json")):
        found = await memoryd(*arguments)
        if arguments[0] == "doctor":
            wrong = objects(found)
            assert "column public.memory_queries.useful is missing" in wrong["found"]
            assert wrong["advice"].endswith(
                "; and restore from a backup, or make again yourself: column public.memory_queries.useful"
            )


async def test_what_is_a_user_s_own_is_nobody_s_business(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        """
        create table mine (id integer primary key);
        create function mine() returns integer language sql as 'select 1';
        create policy mine on agent_memory for select using (false);
        create index mine_kind on agent_memory (kind);
        alter table agent_memory set (fillfactor = 90);
        grant select on agent_memory to pg_monitor;
        """
    )
    assert objects(await memoryd("doctor", "--json"))["verdict"] == "ok"
    await connection.execute("drop policy mine on agent_memory; drop index mine_kind")
    assert (await memoryd("migrate", "--repair")).code == 0
    assert objects(await memoryd("doctor", "--json"))["verdict"] == "ok"
    assert await connection.fetchval("select mine()") == 1
