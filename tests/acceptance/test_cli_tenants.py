"""memoryd tenant: databases made and listed; and how one is moved, as the page says."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from daemon.db.migration_files import load_files
from plugins.tenants.add import MARK
from plugins.tenants.look import AT_ONCE
from tests.support.database.many import served
from tests.support.database.schemas import connected
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons, environment
from tests.support.processes.tenants import SECRET, Tenants, as_role, filled, named, recalled, role
from tests.support.repository import ROOT

# --- add


async def test_the_first_tenant_names_the_server_and_the_next_ones_need_not(tenants: Tenants) -> None:
    none = await tenants("list")
    assert (none.code, "no tenant yet" in none.out) == (0, True)
    refused = await tenants("add", tenants.name("one"))
    assert (refused.code, "--server" in refused.err) == (2, True)
    one, two = await tenants.add("one"), tenants.name("two")
    assert tenants.file.stat().st_mode & 0o777 == 0o600
    tenants.file.write_text(f"# ours\n{tenants.file.read_text()}\n# end\n")
    tenants.file.chmod(0o640)
    done = await tenants("add", two)
    assert done.code == 0, done.err
    assert (
        done.out
        == f"{two}: {urlsplit(one).query.partition('=')[2].partition('&')[0].replace('%2F', '/')}, database {two}\n"
    )
    assert "kill -HUP PID" in done.err
    assert tenants.file.read_text().startswith("# ours\n")
    assert tenants.file.stat().st_mode & 0o777 == 0o640
    assert tenants.urls() == {tenants.name("one"): one, two: named(one, two)}
    assert sorted(path.name for path in tenants.file.parent.glob("tenants*")) == ["tenants", "tenants.lock"]
    listed = await tenants.listed()
    assert [(each["reachable"], each["up_to_date"], each["schema_version"]) for each in listed.values()] == [
        (True, True, load_files().schema[-1].version)
    ] * 2
    again = await tenants("add", two)
    assert (again.code, "already" in again.err) == (2, True)
    # Roles are of the whole server: one tenant's get into no other's database.
    async with connected(tenants.server.admin_url) as admin, role(admin, may="") as stranger:
        assert not await admin.fetchval("select has_database_privilege($1, $2, 'connect')", stranger, two)
    # The list says which cannot be reached.
    gone = tenants.name("gone")
    with tenants.file.open("a") as file:
        file.write(f"{gone}={named(one, gone)}\nrefused=postgresql://u:{SECRET}@127.0.0.1:1/x\n")
    done = await tenants("list", "--json")
    assert done.code == 1
    found = {each["name"]: each for each in done.json}
    assert (found[gone]["reachable"], "does not exist" in found[gone]["error"]) == (False, True)
    assert found["refused"]["host"] == "127.0.0.1:1"
    assert found[two]["bytes"] > 1_000_000
    shown = await tenants("list")
    assert shown.code == 1
    assert len(shown.out.splitlines()) == 5


async def test_two_at_once_lose_nothing(tenants: Tenants) -> None:
    names = [tenants.name(what) for what in ("one", "same", "same")]
    done = await asyncio.gather(
        *(tenants("add", name, "--server", tenants.server.admin_url) for name in names)
    )
    assert done[0].code == 0, [each.err for each in done]
    assert sorted(each.code for each in done[1:]) == [0, 1]
    assert set(tenants.urls()) == set(names)
    assert all(one["up_to_date"] for one in (await tenants.listed()).values())


@pytest.mark.parametrize("name", ['a"b', "a'b", "../x", "A b", "-x", "a=b", "template1"])
async def test_a_bad_name_makes_nothing(name: str, tenants: Tenants) -> None:
    done = await tenants("add", "--server", tenants.server.admin_url, "--", name)
    assert done.code == (1 if name == "template1" else 2)
    assert len(done.sentences) == 1
    assert not tenants.file.exists()


async def test_the_setting_must_name_a_file(tenants: Tenants) -> None:
    inline = f"one={tenants.server.admin_url}"
    done = await tenants("add", "two", database_urls=inline)
    assert (done.code, "into a file" in done.err) == (2, True), done.err
    # To list them needs no file.
    assert (await tenants("list", "--json", database_urls=inline)).json[0]["name"] == "one"


async def test_a_file_that_is_half_written_stays_as_it_is(tenants: Tenants) -> None:
    url = tenants.server.admin_url
    for half in (f"a={url}\nb=postgresql://u:{SECRET}@h/x", f"a={url}\nb\n", "a\0=\xff\n"):
        tenants.file.write_text(half, "latin-1")
        for arguments in (("add", tenants.name("one"), "--server", url), ("list",)):
            done = await tenants(*arguments)
            assert done.code == 1, (half, arguments, done.err)
            assert len(done.sentences) == 1
        assert tenants.file.read_text("latin-1") == half
    async with connected(url) as admin:
        assert not await admin.fetchval(
            "select exists (select from pg_database where datname = $1)", tenants.name("one")
        )


async def test_what_is_wrong_with_the_server_is_one_sentence(tenants: Tenants) -> None:
    url, name = tenants.server.admin_url, tenants.name("one")
    async with connected(url) as admin, role(admin, may="nocreatedb") as stranger:
        done = await tenants("add", name, "--server", as_role(url, stranger))
        assert (done.code, f'alter role "{stranger}" createdb' in done.err) == (1, True), done.err
    for given, said in (
        (f"postgresql://u:{SECRET}@127.0.0.1:1", "cannot be reached"),
        (f"postgresql://u:{SECRET}/x@127.0.0.1:1/db", "cannot be read"),
        (f"mysql://u:{SECRET}@127.0.0.1:1/db", "cannot be read"),
        (f"postgresql://u:{SECRET}@127.0.0.1:1/a b?x= y", "white space"),
    ):
        done = await tenants("add", name, "--server", "-", stdin=f"{given}\n".encode())
        assert (done.code, said in done.err) == (1, True), (given, done.err)
        assert len(done.sentences) == 1
    assert not tenants.file.exists()


async def test_a_database_that_a_killed_add_left_is_taken_and_another_one_is_not(tenants: Tenants) -> None:
    first = await tenants.add("first")
    async with connected(tenants.server.admin_url) as admin:
        for what in ("left", "other"):
            await admin.execute(f'create database "{tenants.name(what)}" template template0')
        await admin.execute(f"comment on database \"{tenants.name('left')}\" is '{MARK}'")
    await tenants.add("left")
    before = tenants.file.read_text()
    done = await tenants("add", tenants.name("other"))
    assert (done.code, "exists already" in done.err) == (1, True), done.err
    assert tenants.file.read_text() == before
    async with connected(named(first, tenants.name("other"))) as opened:
        assert await opened.fetchval("select to_regnamespace('memoryd') is null")


# --- move


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


# --- list


async def test_a_server_that_says_nothing_is_given_up_and_few_are_asked_at_once(tenants: Tenants) -> None:
    most = now = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await reader.read()
        now -= 1
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        lines = [f"t{n}=postgresql://u@127.0.0.1:{port}/d{n}?sslmode=disable\n" for n in range(AT_ONCE + 1)]
        tenants.file.write_text("".join(lines))
        done = await tenants("list", "--json")
    assert done.code == 1
    assert {one["error"] for one in done.json} == {"no answer within 5 s"}
    assert most == AT_ONCE
