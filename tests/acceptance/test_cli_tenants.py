"""memoryd tenant add and list: databases made from a template, and how each of them is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from daemon.db.migration_files import load_files
from daemon.tenants.look import AT_ONCE
from daemon.tenants.template import TEMPLATE
from tests.support.database.schemas import apply, connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied, unless_in_use
from tests.support.database.transaction_pooler import TransactionPooler
from tests.support.processes.commands import Commands
from tests.support.processes.tenants import SECRET, Tenants, as_role, filled, named, recalled, role
from tests.support.rows import remember
from tests.support.waiting import until

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


async def test_a_new_tenant_works_at_once(tenants: Tenants, tmp_path: Path) -> None:
    url = await tenants.add("one")
    await filled(url, tmp_path)
    assert (await recalled(url, tmp_path))[0][0] == "the certificate is purple"  # type: ignore[index]
    checked = await Commands(url, tmp_path)("doctor", "--json")
    assert [one["name"] for one in checked.json if one["verdict"] == "problem"] == ["daemons"]


async def test_tenants_share_nothing_that_two_databases_have_each_for_itself(
    tenants: Tenants, server: Server, empty: str
) -> None:
    async with copied(server, empty) as one, copied(server, empty) as other:
        await apply(one)
        await apply(other)
        first, second = await values_of(one), await values_of(other)
        own = {key for key in first if first[key] != second[key]}
    assert own == {"settings log_key", "trail id", "replica id"}
    first, second = await values_of(await tenants.add("one")), await values_of(await tenants.add("two"))
    assert {key for key in first if first[key] != second[key]} == own


async def values_of(url: str) -> dict[str, object]:
    """Each value of a database without rows of users, times left out."""
    found: dict[str, object] = {}
    async with connected(url) as opened:
        tables = "select tablename from pg_tables where schemaname = 'memoryd' and tablename <> 'tokens'"
        for (table,) in await opened.fetch(tables):
            for (text,) in await opened.fetch(f"select to_jsonb(t)::text from memoryd.{table} t"):
                row = {key: value for key, value in json.loads(text).items() if not key.endswith("_at")}
                if table in ("trail", "replica"):
                    found |= {f"{table} {key}": value for key, value in row.items()}
                elif row.get("key") != "tokens":
                    found[f"{table} {row.get('key', row)}"] = row
    return found


async def test_two_at_once_make_one_template_and_lose_nothing(tenants: Tenants) -> None:
    async with connected(tenants.server.admin_url) as admin:
        await unless_in_use(lambda: admin.execute(f"drop database if exists {TEMPLATE}"))
        names = [tenants.name(what) for what in ("one", "two", "same", "same")]
        done = await asyncio.gather(
            *(tenants("add", name, "--server", tenants.server.admin_url) for name in names)
        )
        assert [each.code for each in done[:2]] == [0, 0], [each.err for each in done]
        assert sorted(each.code for each in done[2:]) == [0, 1]
        assert set(tenants.urls()) == set(names)
        # Another test may be making it at this moment.
        half = "select from pg_database where starts_with(datname, 'memoryd_template_half')"
        await until(admin, f"select not exists ({half})")
    assert all(one["up_to_date"] for one in (await tenants.listed()).values())


async def test_a_template_of_other_functions_is_made_again(tenants: Tenants) -> None:
    await tenants.add("one")
    oid = "select oid from pg_database where datname = $1"
    async with connected(tenants.server.admin_url) as admin:
        before = await admin.fetchval(oid, TEMPLATE)
        await admin.execute(f"comment on database {TEMPLATE} is 'memoryd template of another version'")
        url = await tenants.add("two")
        assert await admin.fetchval(oid, TEMPLATE) != before
        assert not await admin.fetchval("select datallowconn from pg_database where datname = $1", TEMPLATE)
    remote = "openai/text-embedding-3-small"
    done = await tenants("add", tenants.name("other"), embedder=remote, openai_api_key="none")
    assert done.code == 0, done.err
    ask = "select value #>> '{}' from memoryd.settings where key = 'embedder'"
    for each, model in (
        (url, "local/wordllama-256"),
        (named(url, tenants.name("other")), remote),
    ):
        async with connected(each) as opened:
            assert await opened.fetchval(ask) == model


@pytest.mark.parametrize("name", ['a"b', "a'b", "../x", "A b", "-x", "a=b", "memoryd_template"])
async def test_a_bad_name_makes_nothing(name: str, tenants: Tenants) -> None:
    done = await tenants("add", "--server", tenants.server.admin_url, "--", name)
    assert done.code == (1 if name == "memoryd_template" else 2)
    assert len(done.sentences) == 1
    assert not tenants.file.exists()


async def test_the_setting_must_name_a_file(tenants: Tenants) -> None:
    inline = f"one={tenants.server.admin_url}"
    for arguments in (("add", "two"), ("move", "one", tenants.server.admin_url), ("move", "one", "--undo")):
        done = await tenants(*arguments, database_urls=inline)
        assert (done.code, "into a file" in done.err) == (2, True), done.err
    # To list them needs no file.
    assert (await tenants("list", "--json", database_urls=inline)).json[0]["name"] == "one"


async def test_a_file_that_is_half_written_stays_as_it_is(tenants: Tenants) -> None:
    url = tenants.server.admin_url
    for half in (f"a={url}\nb=postgresql://u:{SECRET}@h/x", f"a={url}\nb\n", "a\0=\xff\n"):
        tenants.file.write_text(half, "latin-1")
        for arguments in (("add", tenants.name("one"), "--server", url), ("list",), ("move", "a", url)):
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


@pytest.mark.parametrize("strict", [True, False])
async def test_a_transaction_pooler_is_refused(strict: bool, tenants: Tenants) -> None:
    async with TransactionPooler(tenants.server.admin_url, strict=strict) as pooler:
        done = await tenants("add", tenants.name("one"), "--server", pooler.url)
    assert (done.code, "through a transaction pooler" in done.err) == (1, True), done.err
    assert len(done.sentences) == 1
    assert not tenants.file.exists()
    async with connected(tenants.server.admin_url) as admin:
        assert not await admin.fetchval(
            "select exists (select from pg_database where datname = $1)", tenants.name("one")
        )


async def test_a_database_that_a_killed_add_left_is_taken_and_another_one_is_not(tenants: Tenants) -> None:
    first = await tenants.add("first")
    async with connected(tenants.server.admin_url) as admin:
        for what in ("left", "rows"):
            await admin.execute(f'create database "{tenants.name(what)}" template {TEMPLATE}')
        await admin.execute(f'create database "{tenants.name("empty")}" template template0')
        async with connected(named(first, tenants.name("left"))) as opened:
            copy_of = await opened.fetchval("select id from memoryd.trail")
        url = await tenants.add("left")
        async with connected(url) as opened:
            assert await opened.fetchval("select id from memoryd.trail") != copy_of
        async with connected(named(first, tenants.name("rows"))) as opened:
            await remember(opened, "one")
        before = tenants.file.read_text()
        for what, said in (("rows", "has rows"), ("empty", "no new one of memoryd")):
            done = await tenants("add", tenants.name(what))
            assert (done.code, said in done.err) == (1, True), done.err
        assert tenants.file.read_text() == before
    async with connected(named(first, tenants.name("rows"))) as opened:
        assert await opened.fetchval("select count(*) from agent_memory") == 1


# --- list


async def test_the_list_says_which_tenants_cannot_be_reached(tenants: Tenants) -> None:
    one = await tenants.add("one")
    gone = tenants.name("gone")
    with tenants.file.open("a") as file:
        file.write(f"{gone}={named(one, gone)}\nrefused=postgresql://u:{SECRET}@127.0.0.1:1/x\n")
    done = await tenants("list", "--json")
    assert done.code == 1
    found = {each["name"]: each for each in done.json}
    assert (found[gone]["reachable"], "--undo" in found[gone]["error"]) == (False, True)
    assert found["refused"]["host"] == "127.0.0.1:1"
    assert found[tenants.name("one")]["bytes"] > 1_000_000
    shown = await tenants("list")
    assert shown.code == 1
    assert len(shown.out.splitlines()) == 4


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
