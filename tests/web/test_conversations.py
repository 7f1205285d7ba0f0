"""The page of conversations: the list, one conversation with the facts beside its messages, and what is forgotten."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from urllib.parse import urlencode

import asyncpg
import pytest

from tests.support.rows import column, insert, remember, say
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB = uuid.uuid4(), uuid.uuid4()


async def talk(db: asyncpg.Connection, *texts: str, **columns: object) -> tuple[uuid.UUID, list[uuid.UUID]]:
    """A conversation of Ann's unless told otherwise: its id, and those of its messages."""
    session = await insert(db, "conversation_sessions", {"user_id": ANN} | columns)
    user = columns.get("user_id", ANN)
    return session, [await say(db, session, text, user_id=user) for text in texts]


def version_of(page: str, message: uuid.UUID | None = None) -> str:
    """The hidden version in the form of a message, or of the conversation."""
    form = 'id="edit"' if message is None else f'name="message" value="{message}"'
    page = page.partition(form)[2]
    return page.partition('name="version" value="')[2].partition('"')[0]


async def test_the_list_is_filtered_and_counts_messages(pages: Reader, db: asyncpg.Connection) -> None:
    await talk(db, "hello", "and again", title="The harbour", agent_id="mika", channel="web")
    await talk(db, "Which pears keep best?", "Conference.", agent_id="mika")
    await talk(db, "hi", title="The garden", agent_id="rolf", user_id=BOB)
    group = await insert(db, "chat_groups", {"platform": "telegram", "group_name": "Sundays"})
    await talk(db, "who comes?", user_id=None, chat_id=group)
    said = await pages.read("/conversations")
    assert said.index("Sundays group chat") < said.index("The garden") < said.index("The harbour")
    assert "Which pears keep best?" in said
    assert "Conference" not in said
    assert re.search(r"The harbour \d{4}-\S+ [\d:]+ 2 \d{4}-", said)
    assert "garden" not in await pages.read(f"/conversations?user={ANN}")
    assert "harbour" not in await pages.read("/conversations?agent=rolf")
    assert "garden" not in await pages.read("/conversations?channel=web")
    assert "harbour" not in await pages.read("/conversations?groups=yes")
    assert "no conversation that fits" in await pages.read("/conversations?until=2020-01-01")


async def test_the_list_goes_by_what_was_said_last_not_by_when_it_was_stored(
    pages: Reader, db: asyncpg.Connection
) -> None:
    user = uuid.uuid4()
    for n in (3, 1, 2):
        session, _ = await talk(db, "first", "last", title=f"Chat {n}", user_id=user)
        await db.execute(
            "update conversation_messages set created_at = make_date(2020 + $2, 1 + message_index, 1) where session_id = $1",
            session,
            n,
        )
    await talk(db, title="Silence", user_id=user)
    said = await pages.read(f"/conversations?user={user}")
    order = [said.index(title) for title in ("Silence", "Chat 3", "Chat 2", "Chat 1")]
    assert order == sorted(order)
    assert "4 in all" in said
    assert "Chat 3 2023-01-01 00:00 2 2023-02-01 00:00" in said
    # What was said by a day and since another.
    for asked, found in (
        ("since=2022-02-01", "32"),
        ("until=2022-01-01", "12"),
        ("until=2021-01-01&since=2021-01-15", "1"),
    ):
        said = await pages.read(f"/conversations?user={user}&{asked}")
        assert {n for n in "123" if f"Chat {n}" in said} == set(found), asked


async def test_conversations_are_found_by_words_that_were_said(pages: Reader, db: asyncpg.Connection) -> None:
    user = uuid.uuid4()
    await talk(db, "just Biscuit, my beagle", "how nice", title="Chat one", user_id=user)
    await talk(
        db, "biscuit keeps me sane", "my beagle, too", "biscuit, the BEAGLE", title="Chat two", user_id=user
    )
    await talk(db, "100% {0} wool \\ '' %s", title="Chat odd", user_id=user)
    for words, found in (
        ("beagle biscuit", ["Chat one", "Chat two"]),
        ("SANE", ["Chat two"]),
        ("cat", []),
        ("100% {0}", ["Chat odd"]),
        ("\\ '' %s", ["Chat odd"]),
        ("%", ["Chat odd"]),
    ):
        said = await pages.read(f"/conversations?{urlencode({'user': str(user), 'words': words})}")
        assert sorted(re.findall(r"Chat \w+", said)) == found, words
        assert f"{len(found)} in all" in said or not found
    assert "NUL" in await pages.read("/conversations?words=%00", status=400)
    assert "200 are possible" in await pages.read(f"/conversations?words={300 * 'x'}", status=400)


async def test_messages_are_shown_in_pages_with_their_facts(pages: Reader, db: asyncpg.Connection) -> None:
    session, messages = await talk(db, *(f"message {n:03}" for n in range(120)))
    fact = await remember(
        db, "Ann rows on Sundays", user_id=ANN, metadata=json.dumps({"message_ids": [str(messages[3])]})
    )
    await remember(db, "Bob sails", user_id=BOB, metadata=json.dumps({"message_ids": [str(messages[3])]}))
    await remember(db, "odd", user_id=ANN, metadata=json.dumps({"message_ids": [[1], str(messages[5])]}))
    first = await pages.get(f"/conversations/{session}")
    third = first.partition(f'id="m-{messages[3]}"')[2].partition(f'id="m-{messages[4]}"')[0]
    assert f"/memories/{fact}" in third
    assert first.count("Ann rows on Sundays") == 1
    assert "Bob sails" not in first
    assert text_of(first).count("message 0") == 50
    onwards = first.partition('rel="next" href="')[2].partition('"')[0]
    second = text_of(await pages.get(onwards))
    assert "message 050" in second
    assert "message 099" in second
    assert "message 049" not in second
    there = await pages.read(f"/conversations/{session}?message={messages[110]}")
    assert "message 110" in there
    assert "message 099" not in there
    await pages.get(f"/conversations/{session}?message={uuid.uuid4()}", status=404)
    assert "from 0" in await pages.read(f"/conversations/{session}?from=-1", status=400)


async def test_tool_turns_are_folded_and_hostile_texts_are_texts(
    pages: Reader, db: asyncpg.Connection
) -> None:
    session, _ = await talk(db, "<img src=x onerror=alert(1)>", title="<script>alert(2)</script>")
    calls = {"tool_calls": [{"function": {"name": "tides<b>", "arguments": "{}"}}]}
    await say(db, session, "", user_id=ANN, role="assistant", metadata=json.dumps(calls))
    await say(db, session, "high at 14:20", user_id=ANN, role="tool", metadata='["no object"]')
    await say(db, session, "x" * 5_000_000, user_id=ANN, role="assistant", speaker='"><i>Mia')
    page = await pages.get(f"/conversations/{session}")
    assert len(page) < 200_000
    assert "<img" not in page
    assert "<script>" not in page
    assert "<i>" not in page
    assert "tides&lt;b&gt;" in page
    assert re.search(r"<details><summary>Tool</summary>\s*<pre>high at 14:20</pre>", page)
    assert "it has 5 000 000 characters" in text_of(page)


async def test_a_message_is_forgotten_unless_it_has_changed(pages: Reader, db: asyncpg.Connection) -> None:
    session, [kept, gone] = await talk(db, "stays", "goes")
    path = f"/conversations/{session}"
    page = await pages.get(path)
    form = {"message": str(gone), "version": version_of(page, gone)}
    await db.execute("update conversation_messages set content = 'goes later' where id = $1", gone)
    told = await pages.send(path, form)
    assert told.status_code == 409
    assert "goes later" in text_of(told.text)
    form["version"] = version_of(told.text, gone)
    assert (await pages.send(path, form)).headers["location"] == path
    assert "forgotten the message, with what was found in it alone “goes later”" in await pages.read(path)
    assert "forgotten" not in await pages.read(path), "said once"
    left = await column(db, "select id from conversation_messages where session_id = $1", session)
    assert left == [kept]
    assert (await pages.send(path, form)).status_code == 404
    stale = version_of(await pages.get(path))
    await say(db, session, "one more", user_id=ANN)
    assert (await pages.send(path, {"version": stale})).status_code == 409
    whole = await pages.send(path, {"version": version_of(await pages.get(path))})
    assert whole.headers["location"] == "/conversations"
    assert "forgotten the conversation" in await pages.read("/conversations")
    await pages.get(path, status=404)
    deletions = await db.fetch(
        "select input_data ->> 'table' as name from agent_execution_logs where user_id = $1 "
        "and input_data ->> 'caller' = 'admin' and input_data ->> 'operation' = 'delete' order by created_at",
        ANN,
    )
    assert [row["name"] for row in deletions] == ["conversation_messages", "conversation_sessions"]


async def test_an_end_user_forgets_their_own_alone(url: str, db: asyncpg.Connection, tmp_path: Path) -> None:
    own, [mine] = await talk(db, "mine alone", title="Of Ann")
    others, [theirs] = await talk(db, "bob's alone", title="Of Bob", user_id=BOB)
    group = await insert(db, "chat_groups", {"platform": "telegram"})
    await insert(db, "chat_group_members", {"chat_id": group, "user_id": ANN})
    shared = await insert(db, "conversation_sessions", {"user_id": None, "chat_id": group})
    in_group = await say(db, shared, "bob in the group", user_id=BOB, chat_id=group)
    async with served(url, tmp_path, "--edit", "--as-user", str(ANN)) as ann:
        listed = await ann.read("/conversations")
        assert "Of Ann" in listed
        assert "Of Bob" not in listed
        for path in (f"/conversations/{others}", f"/conversations/{uuid.uuid4()}"):
            await ann.get(path, status=404)
            sent = await ann.send(path, {"version": "0"}, on=f"/conversations/{own}")
            assert sent.status_code == 404
        stray = await ann.send(f"/conversations/{own}", {"message": str(theirs), "version": "x"})
        assert stray.status_code == 404
        page = await ann.get(f"/conversations/{shared}")
        assert "bob in the group" in page
        assert 'name="message"' not in page
        hidden = await db.fetchval(
            "select md5(role || coalesce(speaker, '') || content || metadata::text) from conversation_messages where id = $1",
            in_group,
        )
        for form in ({"message": str(in_group), "version": hidden}, {"version": "0"}):
            sent = await ann.send(f"/conversations/{shared}", form, on=f"/conversations/{own}")
            assert sent.status_code == 404
        version = version_of(await ann.get(f"/conversations/{own}"), mine)
        assert (
            await ann.send(f"/conversations/{own}", {"message": str(mine), "version": version})
        ).status_code == 303
    left = await db.fetch("select id from conversation_messages where id = any($1)", [mine, theirs, in_group])
    assert {row["id"] for row in left} == {theirs, in_group}
