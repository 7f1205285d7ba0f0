"""A stored context or answer knows whose rows it shows, and loses them when they are erased, deleted or changed."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.users import ERASE, found
from tests.support.content.chat_groups import GARDEN, join
from tests.support.content.knowledge import know
from tests.support.processes.daemons import Daemons
from tests.support.processes.paused import gate_closed, meanwhile, paused, pausing
from tests.support.rows import ask, column, conclude, insert, remember, say
from tests.support.waiting import ANSWERED, IDLE, POLL_SECONDS, READY, until

SECRET = "quokkazephyr"
ASKED = "Do you remember what was said about the lantern of the harbor?"
LOOK = "select texts from memoryd.remove_outdated(null)"
AGAIN = "update memoryd.outdated_rows set look_at = clock_timestamp()"
CONTEXT = "select context from agent_commands where id = $1"
NOTES = "select count(*) from memoryd.outdated_rows"


async def look_until_done(connection: asyncpg.Connection) -> None:
    """Looks until no note is left: the last look waits for transactions of the whole server, also of other tests."""
    async with asyncio.timeout(90):
        while await connection.fetchval(NOTES):
            await connection.execute(AGAIN)
            await connection.execute(LOOK)
            await asyncio.sleep(POLL_SECONDS)


async def chunk(connection: asyncpg.Connection, text: str, **columns: object) -> UUID:
    """A document of one chunk; its id."""
    document = await insert(
        connection, "documents", {"title": "Manual", "content": "x", "status": "active"} | columns
    )
    await insert(connection, "memory_chunks", {"document_id": document, "chunk_index": 0, "chunk_text": text})
    return document


async def request(connection: asyncpg.Connection, kind: str, user: UUID | None, **options: object) -> UUID:
    """Asks."""
    values: dict[str, object] = {"kind": kind, "agent_id": "alice", "user_id": user, "query": ASKED}
    return await insert(connection, "memory_requests", values | {"options": json.dumps(options)})


async def read_by_support(connection: asyncpg.Connection, table: str, row: UUID) -> set[object]:
    """The users on whose record it is that support has read this row."""
    await connection.execute("delete from agent_execution_logs where action_type = 'admin_read'")
    async with acting_as(connection, UUID(int=0xAD), role="memoryd_admin"):
        assert await connection.fetchval(f"select id from {table} where id = $1", row) == row
    read = "select user_id from agent_execution_logs where action_type = 'admin_read' and input_data::jsonb ->> 'table' = $1"
    return set(await column(connection, read, table))


async def group(connection: asyncpg.Connection) -> UUID:
    """Ann and Bob are in a group; its conversation."""
    await insert(connection, "chat_groups", {"id": GARDEN, "platform": "slack"})
    await join(connection, GARDEN, ANN, BOB)
    return await insert(connection, "conversation_sessions", {"chat_id": GARDEN, "agent_id": "alice"})


async def test_an_erasure_reaches_all_that_others_were_shown(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    talk = await group(connection)
    await connection.execute("insert into agents (agent_id, open_to_users) values ('alice', true)")
    mine = await say(connection, talk, "The lantern of the harbor is red.", user_id=ANN, chat_id=GARDEN)
    said = await say(
        connection, talk, f"The lantern of the harbor is my {SECRET}.", user_id=BOB, chat_id=GARDEN
    )
    know_it = await know(
        connection, "About", f"Lantern of the harbor: ask {SECRET}.", created_by=str(BOB), tier="learning",
        category="insight",
    )  # fmt: skip
    # What became of the agents' decision, in his words.
    decision = await know(connection, "Lamps", "We buy oil lamps.", tier="learning", category="decision")
    outcome = await know(
        connection, "Outcome", "Of the lamps.", created_by=str(BOB), tier="learning", category="outcome",
        outcome=json.dumps({"success": True, "result": f"lit {SECRET}"}), related_ids=[decision],
    )  # fmt: skip
    memory = await remember(connection, f"the lantern of the harbor is {SECRET}", user_id=BOB)
    await conclude(connection, f"the lantern of the harbor: {SECRET}", 0.9, source_memories=[memory])
    await connection.execute(
        "insert into user_memory_access (user_id, access_level, visibility_scope) values ($1, 1, 'all')", ANN
    )
    document = await chunk(connection, f"The lantern of the harbor has {SECRET} inside.", user_id=BOB)
    await connection.execute("update memory_chunks set access_level = 1 where document_id = $1", document)
    await daemons.start()
    await until(connection, IDLE)
    commands = [await ask(connection, ASKED, user_id=user) for user in (ANN, None)]
    requests = [
        await request(connection, kind, user, **options)
        for user in (ANN, None)
        for kind, options in (("context", {}), ("recall", {}), ("recall", {"around": 2}))
    ]
    for command in commands:
        await until(connection, READY, command)
    for one in requests:
        await until(connection, ANSWERED, one)
    before = await found(connection, SECRET)
    assert before["agent_commands.context"] == 2
    assert before["memory_requests.result"] == len(requests)
    assert (await found(connection, str(know_it)))["memory_queries.knowledge_ids"]
    # Ann was shown her own message with Bob's beside it.
    shown = "select count(*) from memory_requests, jsonb_array_elements(result) e where kind = 'recall' and e ->> 'id' = $1"
    assert await connection.fetchval(shown, str(mine))
    for table, texts in (("agent_commands", commands), ("memory_requests", requests)):
        for text in texts:
            assert await read_by_support(connection, table, text) >= {BOB}
    async with acting_as(connection, BOB):
        await connection.execute(ERASE, BOB)
    assert await found(connection, SECRET) == {}
    for gone in (said, know_it, memory, outcome):
        assert set(await found(connection, str(gone))) <= {"memoryd.outdated_rows.row_ids"}
    # What else these texts said is there, and what is left of a block is whole.
    block = await connection.fetchval(CONTEXT, commands[0])
    assert "The lantern of the harbor is red." in block
    assert "In documents:" not in block
    assert block.split("\n")[-1].startswith("--- END CONTEXT")
    assert await connection.fetchval("select count(*) from memory_requests where status = 'done'") == 6
    await look_until_done(connection)
    for gone in (said, know_it, memory, outcome):
        assert await found(connection, str(gone)) == {}


async def shown_by(connection: asyncpg.Connection, kind: str) -> UUID:
    """A row of this kind that is Bob's, or says what is."""
    memory = await remember(connection, f"the {SECRET}", user_id=BOB)
    match kind:
        case "memory":
            return memory
        case "insight":
            return await conclude(connection, SECRET, 0.9, source_memories=[memory])
        case "answer":
            talk = await insert(connection, "conversation_sessions", {"user_id": BOB, "agent_id": "alice"})
            return await say(connection, talk, SECRET, role="assistant", user_id=None)
        case "chunk":
            document = await chunk(connection, SECRET, user_id=BOB)
            (only,) = await column(
                connection, "select id from memory_chunks where document_id = $1", document
            )
            assert isinstance(only, UUID)
            return only
        case "knowledge":
            return await know(connection, "About", SECRET, created_by=str(BOB), tier="learning")
    decision = await know(connection, "Lamps", "We buy oil lamps.", tier="learning", category="decision")
    await know(
        connection, "Outcome", "Of the lamps.", created_by=str(BOB), tier="learning", category="outcome",
        outcome=json.dumps({"success": True, "result": SECRET}), related_ids=[decision],
    )  # fmt: skip
    return decision


@pytest.mark.parametrize("kind", ["memory", "insight", "answer", "chunk", "knowledge", "outcome"])
@pytest.mark.parametrize("table", ["agent_commands", "memory_requests"])
async def test_support_reads_what_a_text_shows_of_others_on_their_record(
    connection: asyncpg.Connection, table: str, kind: str
) -> None:
    row = await shown_by(connection, kind)
    if table == "agent_commands":
        text = await ask(connection, ASKED, user_id=ANN)
        shows, of = "update agent_commands set context = 'x' where id = $1", "command_id"
    else:
        text = await request(connection, "context", ANN)
        shows, of = "update memory_requests set result = '\"x\"' where id = $1", "request_id"
    assert await read_by_support(connection, table, text) == {ANN}
    await connection.execute(shows, text)
    await connection.execute(
        f"insert into memoryd.quotes ({of}, row_ids, hashes) values ($1, $2, '{{1}}')",
        text,
        [row],
    )
    assert await read_by_support(connection, table, text) == {ANN, BOB}
    if kind in {"knowledge", "outcome"}:
        assert await read_by_support(connection, "shared_knowledge", row) == {BOB}
    # Beside a row that is gone, until the text has lost what it shows of that: whose it was nobody knows.
    await connection.execute(
        "update memoryd.quotes set row_ids = row_ids || $1::uuid, hashes = '{1,2}'", uuid4()
    )
    async with acting_as(connection, UUID(int=0xAD), role="memoryd_admin"):
        assert await connection.fetchval(f"select count(*) from {table} where id = $1", text) == 0


async def test_an_erasure_waits_for_a_context_that_is_being_written(
    connection: asyncpg.Connection, second: asyncpg.Connection, third: asyncpg.Connection, daemons: Daemons
) -> None:
    await pausing(
        connection,
        "create trigger pause before update on agent_commands for each row execute function public.pause()",
    )
    await daemons.start()
    await know(connection, "About", f"Lantern of the harbor: {SECRET}.", created_by=str(BOB))
    await until(connection, IDLE)
    async with gate_closed(second):
        command = await ask(connection, "mend the lantern of the harbor")
        await paused(connection)
        erasing = await meanwhile(third, connection, ERASE, BOB)
        assert not erasing.done()
    await erasing
    await until(connection, READY, command)
    assert SECRET not in await connection.fetchval(CONTEXT, command)


async def test_a_context_does_not_wait_for_an_erasure_that_is_left_open(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """What it shows of what is being erased is gone after the second look."""
    await daemons.start()
    await know(connection, "About", f"Lantern of the harbor: {SECRET}.", created_by=str(BOB))
    await until(connection, IDLE)
    async with second.transaction():
        await second.execute(ERASE, BOB)
        command = await ask(connection, "mend the lantern of the harbor")
        await until(connection, READY, command)
    # The daemon looks by itself; not for as long as that is the first look, which this erasure has had.
    await look_until_done(connection)
    assert SECRET not in await connection.fetchval(CONTEXT, command)


async def test_what_is_deleted_or_changed_leaves_the_texts_that_show_it(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """Nothing but the lines of these rows goes, and a heading goes with its last line."""
    about = "of the harbor lantern"
    facts = {
        word: await remember(connection, f"{word} {about}", kind="fact")
        for word in ("kept", "forgotten", "replaced", "expired", "reworded")
    }
    talk = await insert(connection, "conversation_sessions", {"agent_id": "alice"})
    said = await say(connection, talk, f"edited {about}", agent_id="alice")
    note = await know(
        connection, "Note", f"dropped {about}", tier="learning", category="insight", created_by="alice"
    )
    document = await chunk(connection, f"shredded {about}")
    await conclude(connection, f"dreamt {about}", 0.9, source_memories=[facts["forgotten"]])
    daemon = await daemons.start()
    await until(connection, IDLE)
    command = await ask(connection, ASKED)
    answers = [await request(connection, kind, None) for kind in ("context", "recall")]
    await until(connection, READY, command)
    for answer in answers:
        await until(connection, ANSWERED, answer)
    await daemon.stop()
    texts = f"""
        select context from agent_commands where id = '{command}'
        union all select result::text from memory_requests
    """
    words = {*facts, "edited", "dropped", "shredded", "dreamt"}
    for (text,) in await connection.fetch(texts):
        assert {word for word in words if f"{word} {about}" in text} == words
    await connection.execute("select forget(array[$1::uuid])", facts["forgotten"])
    await connection.execute("select supersede_memory($1, 'newer')", facts["replaced"])
    await connection.execute("update agent_memory set expires_at = now() where id = $1", facts["expired"])
    await connection.execute("select cleanup_expired_memory()")
    await connection.execute("update agent_memory set content = 'other' where id = $1", facts["reworded"])
    await connection.execute("update conversation_messages set content = 'other' where id = $1", said)
    await connection.execute("delete from shared_knowledge where id = $1", note)
    await connection.execute("delete from documents where id = $1", document)
    # One of the texts is locked: it is not waited for, and not forgotten.
    async with connection.transaction():
        await connection.execute("select from agent_commands for update")
        assert await second.fetchval(LOOK) == 2
    await connection.execute(AGAIN)
    assert await connection.fetchval(LOOK) == 1
    for (text,) in await connection.fetch(texts):
        assert {word for word in words if f"{word} {about}" in text} == {"kept"}, text
    block = await connection.fetchval(CONTEXT, command)
    assert [line for line in block.split("\n") if line.endswith(":")] == [
        "Memories, oldest first (★ most relevant):"
    ]
    # What is made from now on shows what is true now, also when it is looked for again.
    await look_until_done(connection)
    assert await connection.fetchval(CONTEXT, command) == block


async def answer_showing(connection: asyncpg.Connection, memory: UUID) -> UUID:
    """An answer to a recall that shows the memory as this connection sees it."""
    return await insert(connection, "memory_requests", {
        "kind": "recall", "query": "q", "status": "done", "result": await connection.fetchval(
            "select jsonb_agg(jsonb_build_object('id', id, 'content', content)) from agent_memory where id = $1",
            memory)})  # fmt: skip


async def test_a_text_made_while_its_row_was_being_changed_shows_the_old_words_no_longer(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """The change is of before the text, and is committed after it."""
    memory = await remember(connection, f"the lantern is {SECRET}")
    async with connection.transaction():
        await connection.execute(
            "update agent_memory set content = 'the lantern is red' where id = $1", memory
        )
        await answer_showing(second, memory)
    new = await answer_showing(second, memory)
    await look_until_done(connection)
    assert await found(connection, SECRET) == {}
    assert "is red" in await connection.fetchval("select result from memory_requests where id = $1", new)


async def test_an_answer_in_writing_while_a_change_is_committed_shows_the_old_words_no_longer(
    connection: asyncpg.Connection, second: asyncpg.Connection, third: asyncpg.Connection, daemons: Daemons
) -> None:
    """The search has not seen the change, and what is run after it in the same statement has."""
    await pausing(
        connection,
        "create trigger pause before update on memory_requests for each row execute function public.pause()",
    )
    await daemons.start()
    memory = await remember(connection, f"the lantern of the harbor is {SECRET}")
    await until(connection, IDLE)
    async with gate_closed(third), second.transaction():
        await second.execute(
            "update agent_memory set content = 'the lantern of the harbor is red' where id = $1", memory
        )
        asked = await request(connection, "recall", None)
        await paused(connection)
    await until(connection, ANSWERED, asked)
    await until(connection, IDLE)
    await look_until_done(connection)
    assert await found(connection, SECRET) == {}


async def test_a_text_that_takes_long_to_write_loses_what_was_deleted_meanwhile(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    memory = await remember(connection, f"the lantern is {SECRET}")
    async with second.transaction():
        await answer_showing(second, memory)
        await connection.execute("delete from agent_memory where id = $1", memory)
        for _ in range(3):
            await connection.execute(LOOK)
            await connection.execute(AGAIN)
    await look_until_done(connection)
    assert await found(connection, SECRET) == {}


async def test_a_title_and_an_outcome_are_words_of_their_rows(connection: asyncpg.Connection) -> None:
    document = await chunk(connection, "the lantern", title=SECRET)
    passage = await connection.fetchval("select id from memory_chunks")
    decision = await know(
        connection, "Lantern", "we buy one", category="decision", outcome=json.dumps({"result": SECRET})
    )
    for shown in (passage, decision):
        await insert(connection, "memory_requests", {
            "kind": "recall", "query": "q", "status": "done", "result": json.dumps([{"id": str(shown), "content": SECRET}]),
        })  # fmt: skip
    # Nothing of this is shown.
    await connection.execute("update documents set source = 'mail', metadata = '{\"x\": 1}'")
    await connection.execute("update shared_knowledge set resolved_at = now()")
    assert await connection.fetchval(LOOK) == 0
    await connection.execute("update documents set title = 'Manual' where id = $1", document)
    await connection.execute(
        'update shared_knowledge set outcome = \'{"result": "sold"}\' where id = $1', decision
    )
    assert await connection.fetchval(LOOK) == 2
    assert await found(connection, SECRET) == {}


async def test_of_two_rows_that_say_the_same_the_other_stays(connection: asyncpg.Connection) -> None:
    mine, gone = [await remember(connection, "the lantern", user_id=user) for user in (ANN, BOB)]
    command = await ask(connection, "x", context="- the lantern\n- an oar\n- the lantern")
    await connection.execute(
        "insert into memoryd.quotes (command_id, row_ids, hashes) "
        "values ($1, $2, array_fill(memoryd.quote_hash('- the lantern'), '{2}'))", command, [mine, gone],
    )  # fmt: skip
    await connection.execute("delete from agent_memory where id = $1", gone)
    await connection.execute(LOOK)
    assert await connection.fetchval(CONTEXT, command) == "- an oar\n- the lantern"
    await connection.execute("delete from agent_memory where id = $1", mine)
    await connection.execute(LOOK)
    assert await connection.fetchval(CONTEXT, command) == "- an oar"


async def test_a_user_who_deletes_a_row_does_not_wait_for_those_who_were_shown_it(
    connection: asyncpg.Connection,
) -> None:
    """So its time does not tell how many these are."""
    memory = await remember(connection, "the lantern", user_id=ANN)
    result = [{"id": str(memory), "content": "the lantern"}]
    asked: dict[str, object] = {
        "kind": "recall",
        "query": "q",
        "status": "done",
        "result": json.dumps(result),
    }
    for _ in range(3):
        await insert(connection, "memory_requests", asked)
    async with acting_as(connection, ANN):
        await connection.execute("select forget(array[$1::uuid])", memory)
    assert await connection.fetchval("select count(*) from memory_requests where result <> '[]'") == 3
    assert await connection.fetchval(LOOK) == 3
    assert await connection.fetchval("select count(*) from memory_requests where result <> '[]'") == 0
