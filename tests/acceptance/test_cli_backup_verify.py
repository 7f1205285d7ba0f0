"""memoryd backup --verify: a backup counts once it was restored, into the Postgres that memoryd brings along."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes.commands import Commands


async def test_a_backup_is_verified_by_restoring_it(memoryd: Commands, backup: Path, tmp_path: Path) -> None:
    done = await memoryd("backup", "--verify", str(backup))
    assert done.code == 0, done.err
    assert "can be restored" in done.out
    assert "wombat" not in done.out + done.err
