"""What a user may ask of support, on their page: a copy, an erasure, no more memory, a note; and who may ask for it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import pytest

from tests.support.database.cut_wire import CutWire
from tests.support.database.logins import login, login_url
from tests.support.database.schemas import connected
from tests.support.rows import insert, remember, say, somebody
from tests.support.services.web_pages import CSRF, Reader, served, text_of
from tests.support.waiting import BLOCKED, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAYLOAD = '"><img src=x onerror=alert(1)>'
MEMORIES = "select count(*) from agent_memory where user_id = $1"
DELETING = """
select count(*) = 0 from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and query ~ 'erase_user_memory' and state <> 'idle'
"""
FAILED = """
select exists (select from agent_execution_logs where input_data ->> 'table' = 'export_failed' and user_id = $1)
"""
CUT = """
select bool_and(pg_terminate_backend(pid)) from pg_stat_activity
where datname = current_database() and application_name = 'memoryd web' and wait_event_type = 'Lock'
"""
FORMS = ({"do": "off"}, {"do": "on"}, {"do": "remember", "content": "x"})


async def test_all_of_a_user_is_deleted_after_a_page_that_names_them_and_the_next_proves_it(
    pages: Reader, db: asyncpg.Connection
) -> None:
    user, other = await somebody(db, PAYLOAD), await somebody(db, "Other One")
    path = f"/users/{user}/erasure"
    page = await pages.get(path)
    assert "<img" not in page
    said = text_of(page)
    for part in (f"Delete everything about {PAYLOAD}", "1 memory,", "What stays", "the team's knowledge"):
        assert part in said, part
    refused = await pages.send(path, {})
    assert refused.status_code == 400
    assert "what goes and what stays" in text_of(refused.text)
    assert await db.fetchval(MEMORIES, user) == 1
    # Two tabs at once, and one that comes late. Whoever looks meanwhile leaves a row on the trail: these have looked before.
    token = CSRF.search(page)
    assert token is not None
    form = {"csrf": token[1], "sure": "yes"}
    both = await asyncio.gather(*(pages.http.post(path, data=form) for _ in range(2)))
    assert {answer.status_code for answer in both} <= {303, 404}
    said = await pages.read(path)
    assert "Everything is deleted about this user" in said
    assert PAYLOAD not in said, "their name has gone, too"
    assert "1 memory" in said
    assert "a copy made now has nothing of them" in said
    assert (await pages.send(path, {"sure": "yes"}, on="/memories")).status_code == 404
    assert "no such user" in await pages.read(f"/users/{user}", status=404)
    left = await db.fetchval("select public.export_user_memory($1)", user)
    assert {name: rows for name, rows in json.loads(left)["tables"].items() if rows} == {}
    assert await db.fetchval(MEMORIES, other) == 1


async def test_what_the_team_knows_of_somebody_is_shown_by_whole_and_part_of_a_name_and_no_address_has_it(
    pages: Reader, db: asyncpg.Connection, url: str, tmp_path: Path
) -> None:
    evil = 'Ottilie "Otto" <b>Qvist</b> ' + "x" * 170
    user, other = await somebody(db, "Ottilie Qvist"), await somebody(db, "Ottilie Qvist")
    session = await db.fetchval("select id from conversation_sessions where user_id = $1", user)
    await say(db, session, "And so I am called", user_id=user, speaker=evil)
    org = uuid.uuid4()
    titles = {
        "Door of Ottilie Qvist": None, "Qvist's key <img src=x>": None, "The Qvistling bird": None,
        "ottilie QVIST, of another organisation": org, "Noted by herself, Ottilie Qvist": None,
    }  # fmt: skip
    for title, of in titles.items():
        by = str(user) if title.startswith("Noted") else "clerk"
        row = {"title": title, "tier": "core", "category": "client", "content": title, "created_by": by}
        await insert(db, "shared_knowledge", row | {"org_id": of})
    await insert(db, "shared_knowledge", {"title": "Shed of Ottilie Qvist", "status": "archived", "tier": "core",
                                          "category": "client", "content": "Locked", "created_by": "clerk"})  # fmt: skip
    path = f"/users/{user}/erasure"
    page = await pages.get(path)
    assert "<img" not in page
    assert "<b>" not in page
    _, whole, part = re.split("These have the whole name|These have a part of the name", text_of(page))
    assert "Door of Ottilie Qvist" in whole
    assert "ottilie QVIST, of another organisation" in whole
    assert "Shed of Ottilie Qvist archived" in whole, "what is kept, but not found, is told of, too"
    assert "Qvist's key" in part
    for not_meant in ("Qvistling", "Noted by herself"):
        assert not_meant not in whole + part
    for link in re.findall(r'href="([^"]+)"|action="([^"]+)"', page):
        assert "ttilie" not in "".join(link), link
        assert "vist" not in "".join(link), link
    assert (await pages.send(path, {"sure": "yes"})).status_code == 303
    done = await pages.read_done(path, "erasure", lacks="being deleted since")
    assert "What the team knows of them still" in done
    assert "Door of Ottilie Qvist" in done
    assert "Noted by herself" not in done
    # To an end user, who sees no knowledge, none is shown.
    async with served(url, tmp_path, "--edit", "--as-user", str(other)) as reader:
        assert "Door of" not in await reader.read(f"/users/{other}/erasure")


async def test_two_tabs_begin_one_erasure_and_both_show_what_it_deleted(
    url: str, pages: Reader, db: asyncpg.Connection
) -> None:
    user = await somebody(db)
    path = f"/users/{user}/erasure"
    token = CSRF.search(await pages.get(path))
    assert token is not None
    form = {"csrf": token[1], "sure": "yes"}
    async with connected(url) as writer:
        async with writer.transaction():
            await writer.execute("lock table agent_memory")  # Each looks whether there is somebody.
            sent = [asyncio.create_task(pages.http.post(path, data=form)) for _ in range(2)]
            await until(db, BLOCKED)
        statuses = {answer.status_code for answer in await asyncio.gather(*sent)}
    assert statuses <= {303, 404}, "404: where it came after the end of the other"
    assert "1 memor" in await pages.read_done(path, "erasure", lacks="being deleted since")


async def test_whoever_has_any_row_is_given_a_copy_and_can_be_deleted(
    pages: Reader, db: asyncpg.Connection
) -> None:
    note = {"title": "t", "tier": "core", "category": "client", "content": "Their words"}
    for table, row in (
        ("shared_knowledge", note | {"created_by": None}),
        ("memory_requests", {"kind": "recall", "query": "tea", "status": "done", "user_id": None}),
        ("agent_execution_logs", {"step_name": "s", "action_type": "admin_read", "user_id": None}),
    ):
        user = uuid.uuid4()
        await insert(
            db,
            table,
            {k: str(user) if v is None and k == "created_by" else v or user for k, v in row.items()},
        )
        path = f"/users/{user}/erasure"
        answer = await pages.send(f"/users/{user}/copy", {}, on=path)
        assert answer.status_code == 200, table
        assert len(json.loads(answer.content)["tables"][table]) >= 1
        assert (await pages.send(path, {"sure": "yes"})).status_code == 303, table
        assert "a copy made now has nothing of them" in await pages.read(path), table


async def test_a_login_with_no_rights_of_its_own_is_told_what_was_deleted(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    user = await somebody(db)
    path = f"/users/{user}/erasure"
    async with (
        login(db, url, inherit=False) as (name, _),
        served(login_url(url, name, "secret"), tmp_path, "--edit", "--as-user", str(user)) as reader,
    ):
        copy = json.loads((await reader.send(f"/users/{user}/copy", {}, on="/memories")).content)
        assert [row["content"] for row in copy["tables"]["agent_memory"]] == ["likes tea"]
        read = "select input_data ->> 'caller' from agent_execution_logs where user_id = $1 and step_name = 'export'"
        assert [row[0] for row in await db.fetch(read, user)] == ["user"]
        await reader.send(path, {"sure": "yes"})
        said = await reader.read_done(path, "erasure", lacks="being deleted since")
        assert "1 memory" in said
        assert "a copy made now" not in said
    assert await db.fetchval(MEMORIES, user) == 0
    async with (
        login(db, url, role="memoryd_admin, memoryd_service", inherit=False) as (name, _),
        served(login_url(url, name, "secret"), tmp_path) as reader,
    ):
        await reader.get(path)


async def test_what_became_of_an_erasure_is_said_in_one_sentence(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    with TemporaryDirectory(dir="/tmp") as folder:  # a socket's path is short
        async with CutWire(url, folder) as wire, served(wire.url, tmp_path, "--edit") as reader:
            for after, said in (
                (True, "It is not known whether it was deleted: look below."),
                (False, "Nothing was deleted: the connection to the database was lost."),
            ):
                user = await somebody(db)
                path = f"/users/{user}/erasure"
                async with connected(url) as writer, writer.transaction():
                    await writer.execute("update agent_memory set source = 'x' where user_id = $1", user)
                    assert (await reader.send(path, {"sure": "yes"})).status_code == 303
                    await until(db, BLOCKED)
                    wire.cut(b"COMMIT", after=after)
                done = await reader.read_done(path, "erasure", lacks="being deleted since")
                assert said in done
                assert done.count("Nothing was") == (not after)
                assert await db.fetchval(MEMORIES, user) == (not after)
            path = f"/users/{await somebody(db)}/erasure"
            await db.execute(
                "create function public.refuse_it() returns trigger language plpgsql as "
                "$$ begin raise 'not today. Nothing was erased' using hint = 'Try tomorrow.'; end $$; "
                "create trigger refuse_it before delete on agent_memory execute function public.refuse_it()"
            )
            try:
                await reader.send(path, {"sure": "yes"})
                done = await reader.read_done(path, "erasure", lacks="being deleted since")
                assert "Nothing was deleted: not today; try tomorrow." in done
                assert done.count("Nothing was") == 1
            finally:
                await db.execute("drop trigger refuse_it on agent_memory; drop function public.refuse_it()")


async def test_an_erasure_whose_server_is_killed_has_deleted_nothing_and_can_be_sent_again(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    user = await somebody(db)
    path = f"/users/{user}/erasure"
    async with served(url, tmp_path, "--edit") as killed, connected(url) as writer, writer.transaction():
        await writer.execute("update agent_memory set source = 'held' where user_id = $1", user)
        sent = await killed.send(path, {"sure": "yes"})
        assert sent.status_code == 303
        assert "being deleted since" in await killed.read(path)
        another = await somebody(db)
        busy = await killed.send(f"/users/{another}/erasure", {"sure": "yes"})
        assert busy.status_code == 429
        await until(db, BLOCKED)
        killed.killed = True
        os.kill(killed.pid, signal.SIGKILL)
    await until(db, DELETING)
    assert await db.fetchval(MEMORIES, user) == 1
    async with served(url, tmp_path, "--edit") as reader:
        assert "What goes" in await reader.read(path)
        assert (await reader.send(path, {"sure": "yes"})).status_code == 303
        assert "a copy made now has nothing of them" in await reader.read_done(
            path, "erasure", lacks="being deleted since"
        )
    assert await db.fetchval(MEMORIES, user) == 0


async def test_memory_is_switched_off_and_on_again_and_what_is_there_stays(
    pages: Reader, db: asyncpg.Connection
) -> None:
    user = await somebody(db)
    path = f"/users/{user}"
    assert (await pages.send(path, {"do": "off"})).status_code == 303
    said = await pages.read(path)
    assert "saved" in said
    assert "memory is off" in said
    assert "written settings of memory" in said
    assert await db.fetchval("select memoryd.memory_is_off($1)", user)
    refused = await pages.send(path, {"do": "remember", "content": "likes coffee"})
    assert refused.status_code == 400
    assert "is switched off for" in text_of(refused.text)
    assert "likes coffee" in refused.text, "what was typed stays"
    assert await db.fetchval(MEMORIES, user) == 1
    await pages.send(path, {"do": "on"})
    assert not await db.fetchval("select memoryd.memory_is_off($1)", user)
    assert "2 times" in (await pages.read(path)).partition("written settings of memory")[2]


async def test_what_they_may_ask_for_stands_in_one_place_in_plain_words(
    pages: Reader, db: asyncpg.Connection
) -> None:
    user = await somebody(db)
    page = await pages.get(f"/users/{user}")
    [rights] = re.findall(r'<section aria-labelledby="rights".*?</section>', page, re.DOTALL)
    said = text_of(rights)
    for choice in (
        "Forget one thing",
        "Stop remembering Nothing is deleted",
        "A copy of everything",
        "Delete everything",
    ):
        assert choice in said, choice
    assert "What they say later is remembered anew, unless memory is off" in said
    rest = page.replace(rights, "")
    for word in ('value="off"', 'value="on"', "/copy", "/erasure"):
        assert word not in rest, word


async def test_support_notes_something_and_it_is_no_sign_of_the_user(
    pages: Reader, db: asyncpg.Connection
) -> None:
    user = await somebody(db)
    path = f"/users/{user}"
    assert 'name="agent" value="clerk"' in await pages.get(path), "the agent that they have alone"
    answer = await pages.send(
        path, {"do": "remember", "content": PAYLOAD, "source": "a call", "agent": "clerk"}
    )
    page = await pages.get(answer.headers["location"])
    assert "<img" not in page
    for part in ("saved", PAYLOAD, "Source a call"):
        assert part in text_of(page), part
    row = await db.fetchrow("select * from agent_memory where user_id = $1 and source = 'a call'", user)
    assert row is not None
    assert (row["agent_id"], row["content"]) == ("clerk", PAYLOAD)
    again = await pages.send(path, {"do": "remember", "content": "likes tea", "agent": "clerk"})
    kept = 3 if "saved" in await pages.read(again.headers["location"]) else 2
    assert await db.fetchval(MEMORIES, user) == kept
    for wrong in (
        {"content": "\0"},
        {"content": " "},
        {"content": "x", "agent": "a" * 201},
        {"content": "x", "source": "s" * 1001},
    ):
        assert (await pages.send(path, {"do": "remember"} | wrong)).status_code == 400
    assert (await pages.send(path, {"do": "remember", "content": "x" * 10_000_001})).status_code == 400


async def test_a_replacement_has_the_source_that_was_given(pages: Reader, db: asyncpg.Connection) -> None:
    user = uuid.uuid4()
    memory = await remember(db, "is vegetarian", agent_id="clerk", user_id=user, source="a call of May")
    for source, shown in (("", None), ("a call of today", "a call of today")):
        page = await pages.get(f"/memories/{memory}")
        version = page.partition('name="version" value="')[2].partition('"')[0]
        form = {"do": "replace", "version": version, "content": f"eats fish {source}", "source": source}
        to = (await pages.send(f"/memories/{memory}", form)).headers["location"]
        memory = uuid.UUID(to.rpartition("/")[2])
        assert await db.fetchval("select source from agent_memory where id = $1", memory) == shown


async def test_who_is_no_support_does_this_to_nobody_else(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    ann, bob = await somebody(db), await somebody(db, "Bob")
    async with served(url, tmp_path, "--edit", "--as-user", str(ann)) as reader:
        for path in (f"/users/{bob}", f"/users/{bob}/erasure", f"/users/{bob}/copy"):
            for form in (*FORMS, {"sure": "yes"}):
                assert (await reader.send(path, form, on="/memories")).status_code in (400, 404), path
        await reader.get(f"/users/{bob}/erasure", status=404)
        assert await db.fetchval(MEMORIES, bob) == 1
        assert not await db.fetchval("select memoryd.memory_is_off($1)", bob)
        # To themselves.
        await reader.send(f"/users/{ann}", {"do": "off"})
        assert await db.fetchval("select memoryd.memory_is_off($1)", ann)
        await reader.send(f"/users/{ann}", {"do": "on"})
        answer = await reader.send(f"/users/{ann}", {"do": "remember", "content": "likes figs"})
        assert "likes figs" in await reader.read(answer.headers["location"])
        copy = json.loads((await reader.send(f"/users/{ann}/copy", {}, on="/memories")).content)
        assert str(bob) not in json.dumps(copy)
        await reader.send(f"/users/{ann}/erasure", {"sure": "yes"})
        assert "a copy made now has nothing" in await reader.read_done(
            f"/users/{ann}/erasure", "erasure", lacks="being deleted since"
        )
    assert await db.fetchval(MEMORIES, ann) == 0
    assert await db.fetchval(MEMORIES, bob) == 1


async def test_a_form_of_another_site_or_session_does_nothing(pages: Reader, db: asyncpg.Connection) -> None:
    user = await somebody(db)
    token = CSRF.search(await pages.get(f"/users/{user}"))
    assert token is not None
    for path, form in (
        (f"/users/{user}", FORMS[0]),
        (f"/users/{user}/erasure", {"sure": "yes"}),
        (f"/users/{user}/copy", {}),
    ):
        for fields, headers in ((form, {}), (form | {"csrf": token[1]}, {"Origin": "https://evil.example"})):
            answer = await pages.http.post(path, data=fields, headers=headers)
            assert answer.status_code == 403, (path, headers)
    assert await db.fetchval(MEMORIES, user) == 1
    assert not await db.fetchval("select memoryd.memory_is_off($1)", user)
