"""A tenant of several is moved to another server, as docs/many-databases.md says."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from tests.support.database.many import served
from tests.support.database.schemas import connected
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons, environment
from tests.support.processes.tenants import Tenants, filled, named, recalled
from tests.support.repository import ROOT


async def test_a_new_tenant_works_at_once_and_moves_as_the_page_says(
    tenants: Tenants, elsewhere: str, tmp_path: Path
) -> None:
    acme, other = await tenants.add("acme"), await tenants.add("other")
    await filled(acme, tmp_path)
    before = await recalled(acme, tmp_path)
    assert before[0][0] == "the certificate is purple"  # type: ignore[index]
    checked = await Commands(acme, tmp_path)("doctor", "--json")
    assert [one["name"] for one in checked.json if one["verdict"] == "problem"] == ["daemons"]
    async with connected(elsewhere) as admin:
        await admin.execute("create database acme")
    new = named(elsewhere, "acme")
    processes = Daemons("postgresql://nobody@127.0.0.1:1/none", tmp_path)
    try:
        serving = await processes.start(wait=False, database_urls=tenants.file, poll_seconds=1)
        await serving.event("daemon_started", database=tenants.name("acme"))
        page = (ROOT / "docs/many-databases.md").read_text()
        (script,) = [one for one in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if " restore " in one]
        for written, here in (
            ("postgresql://memoryd@db2.internal/acme", new),
            ("/etc/memoryd/databases", str(tenants.file)),
            ("--database acme", f"--database {tenants.name('acme')}"),
            ("acme=", f"{tenants.name('acme')}="),
        ):
            assert written in script
            script = script.replace(written, here)
        given = environment("", {"database_urls": tenants.file}) | {"MEMORYD_PID": str(serving.process.pid)}
        given["PATH"] = f"{Path(sys.executable).parent}:{given.get('PATH', '/usr/bin:/bin')}"
        ran = await asyncio.create_subprocess_exec("sh", "-ec", script, env=given, cwd=tmp_path)
        assert await asyncio.wait_for(ran.wait(), 120) == 0
        await serving.event("databases_read", databases=2, changed=1)
        assert tenants.urls() == {tenants.name("acme"): new, tenants.name("other"): other}
        assert await recalled(new, tmp_path) == before
        async with connected(new) as opened:
            assert "certificate" in await served(opened, "renew the purple certificate")
    finally:
        await processes.kill_all()
