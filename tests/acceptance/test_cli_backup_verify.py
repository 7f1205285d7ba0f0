"""memoryd backup --verify: a backup counts once it was restored, into the Postgres that memoryd brings along."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from tests.support.processes.commands import Commands


async def test_a_backup_is_verified_by_restoring_it(memoryd: Commands, backup: Path, tmp_path: Path) -> None:
    done = await memoryd("backup", "--verify", str(backup))
    assert done.code == 0, done.err
    assert "can be restored" in done.out
    assert "wombat" not in done.out + done.err


async def test_functions_of_the_file_run_as_a_login_that_cannot_leave_the_database(
    memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    seen.chmod(0o777)
    await connection.execute(f"""
        create function public.peek(x text) returns boolean language plpgsql immutable as $$
        begin
            if exists (select from pg_roles where rolname = current_user and (rolsuper or rolreplication)) then
                execute $x$copy (select 1) to program 'id > {seen}/superuser'$x$;
            end if;
            return true;
        end $$;
        create table public.notes (x text check (public.peek(x)), y text generated always as (public.peek(x)::text) stored);
        insert into public.notes values ('a');
        create index on public.notes ((public.peek(x)));
    """)
    file = tmp_path / "of-a-stranger.backup"
    assert (await memoryd("backup", str(file))).code == 0
    done = await memoryd("backup", "--verify", str(file))
    assert done.code == 0, done.err
    assert not list(seen.iterdir())
