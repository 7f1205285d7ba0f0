"""The current project (a piece of work, a channel, a group chat) of a question: rows that name another one are left out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from tests.acceptance.test_documents import sql_blocks
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.isolation import index_world
from tests.support.access.refusals import refused
from tests.support.processes.commands import memoryd
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import conclude, embedding, insert, remember
from tests.support.waiting import ANSWERED, until

PROJECTS = (None, "family", "office", "board")


async def share(connection: asyncpg.Connection, project: str | None, number: int) -> None:
    """A chunk and a message for everybody of level 1."""
    metadata = json.dumps({} if project is None else {"project": project})
    shared: dict[str, object] = {"metadata": metadata, "access_level": 1, "user_id": BOB}
    text = f"lantern, shared, {project}"
    document = await insert(connection, "documents", {"title": text, "user_id": BOB})
    await insert(
        connection,
        "memory_chunks",
        {"document_id": document, "chunk_index": 0, "chunk_text": f"chunk: {text}"} | shared,
    )
    session = UUID(int=0x5E55 + number)
    await insert(connection, "conversation_sessions", {"id": session, "user_id": BOB})
    await insert(
        connection,
        "conversation_messages",
        {"session_id": session, "role": "user", "content": f"message: {text}"} | shared,
    )


@pytest.fixture
async def world(connection: asyncpg.Connection) -> asyncpg.Connection:
    """Of each project a shared chunk, a shared message and a memory of Ann's, who is allowed family and office."""
    for number, project in enumerate(PROJECTS):
        await share(connection, project, number)
        metadata = json.dumps({} if project is None else {"project": project})
        await remember(
            connection, f"memory: lantern, ann, {project}", user_id=ANN, kind="fact", metadata=metadata
        )
    await insert(
        connection,
        "user_memory_access",
        {"user_id": ANN, "access_level": 1, "allowed_contexts": ["family", "office"]},
    )
    await index_world(connection)
    return connection


def rows(*, shared: tuple[str | None, ...], own: tuple[str | None, ...]) -> list[str]:
    """The texts of these projects."""
    return sorted(
        [f"{kind}: lantern, shared, {project}" for kind in ("chunk", "message") for project in shared]
        + [f"memory: lantern, ann, {project}" for project in own]
    )


def texts(found: Sequence[asyncpg.Record]) -> list[str]:
    """Their first columns, sorted."""
    return sorted(row[0] for row in found)


HERE = "options => jsonb_build_object('project', $1::text)"
ASKED = f"select content from recall('lantern', match_count => 50, {HERE})"
FOUND: Mapping[str | None, list[str]] = {
    None: rows(shared=(None, "family", "office"), own=PROJECTS),
    "family": rows(shared=(None, "family"), own=(None, "family")),
    "office": rows(shared=(None, "office"), own=(None, "office")),
    # Not allowed: nothing of it is found but her own.
    "board": rows(shared=(None,), own=(None, "board")),
    "nowhere": rows(shared=(None,), own=(None,)),
    "Family": rows(shared=(None,), own=(None,)),
}


@pytest.mark.parametrize("project", list(FOUND))
async def test_a_user_finds_what_names_no_project_or_the_current_one(
    world: asyncpg.Connection, project: str | None
) -> None:
    explained = (
        "select case e.source when 'memory' then (select content from agent_memory m where m.id = e.id) "
        "when 'document' then (select chunk_text from memory_chunks c where c.id = e.id) "
        "else (select content from conversation_messages m where m.id = e.id) end "
        "from explain_recall('lantern', match_count => 50) e"
    )
    async with acting_as(world, ANN):
        assert texts(await world.fetch(ASKED, project)) == FOUND[project]
        # The setting does the same.
        await world.execute("select set_config('memoryd.project', $1, true)", project or "")
        for ask in ("select content from recall('lantern', match_count => 50)", explained):
            assert texts(await world.fetch(ask)) == FOUND[project]


async def test_as_many_are_found_as_were_asked_for_however_many_others_are_better(
    world: asyncpg.Connection,
) -> None:
    await world.execute(
        "insert into agent_memory (agent_id, user_id, kind, content, metadata) "
        "select 'alice', $1, 'fact', 'lantern lantern ' || n, '{\"project\": \"office\"}' from generate_series(1, 400) n",
        ANN,
    )
    for indexed in (False, True):
        if indexed:
            await index_world(world)
        async with acting_as(world, ANN):
            best = f"select content from recall('lantern', match_count => 3, sources => '{{memory}}', {HERE})"
            assert len(await world.fetch(best, "office")) == 3
            assert texts(await world.fetch(best, "family")) == rows(shared=(), own=(None, "family"))


async def test_as_many_are_found_however_many_of_other_contexts_are_nearer(world: asyncpg.Connection) -> None:
    """By the embedding alone: no row has the word that is asked for."""
    columns = await world.fetch(
        "select attname from pg_attribute where attrelid = 'memoryd.entries'::regclass "
        "and attnum > 0 and not attisdropped and attgenerated = ''",
    )
    near = f"{embedding(1.0, -0.2)!r}::vector"
    changed = {"id": "gen_random_uuid()", "embedding": near}
    names = [row[0] for row in columns]
    copied = ", ".join(changed.get(name, name) for name in names)
    await world.execute(
        f"insert into memoryd.entries ({', '.join(names)}) select {copied} from memoryd.entries e, generate_series(1, 4100) "
        "where e.source = 'memory' and e.grants_metadata ->> 'project' = 'office'"
    )
    async with acting_as(world, ANN):
        found = await world.fetch(
            f"select content from recall('xylophone', query_embedding => {near}, sources => '{{memory}}', {HERE})",
            "family",
        )
    assert texts(found) == rows(shared=(), own=(None, "family"))


@pytest.mark.parametrize(
    ("access", "shared"),
    [
        ({"user_role": "admin"}, (None, "board")),
        ({"visibility_scope": "all", "access_level": 1}, (None, "board")),
        ({"access_level": 1, "allowed_contexts": []}, (None,)),
        ({"access_level": 0}, ()),
        ({"user_role": "admin", "visibility_scope": "own"}, ()),
    ],
)
async def test_a_project_widens_no_right_and_narrows_those_of_an_admin_too(
    world: asyncpg.Connection, access: dict[str, object], shared: tuple[str | None, ...]
) -> None:
    await world.execute("delete from user_memory_access")
    await insert(world, "user_memory_access", {"user_id": ANN} | access)
    async with acting_as(world, ANN):
        found = await world.fetch(ASKED, "board")
    assert texts(found) == rows(shared=shared, own=(None, "board"))


async def test_a_plain_select_shows_of_shared_rows_those_of_the_project(world: asyncpg.Connection) -> None:
    """Their own rows users may always select: to change, export and delete them."""
    select = "select content from conversation_messages union all select chunk_text from memory_chunks"
    async with acting_as(world, ANN):
        await world.execute("set local memoryd.project = 'family'")
        assert texts(await world.fetch(select)) == rows(shared=(None, "family"), own=())
        assert await world.fetchval("select count(*) from agent_memory") == 4
        await world.execute("set local memoryd.project = 'board'")
        assert texts(await world.fetch(select)) == rows(shared=(None,), own=())
    async with acting_as(world, ANN):
        assert len(await world.fetch(select)) == 6


async def test_the_project_of_a_call_ends_with_it(world: asyncpg.Connection) -> None:
    now = "select coalesce(current_setting('memoryd.project', true), '')"
    async with acting_as(world, ANN):
        await world.fetch(ASKED, "family")
        assert await world.fetchval(now) == ""
        await world.execute("set local memoryd.project = 'office'")
        assert texts(await world.fetch(ASKED, "office")) == FOUND["office"]
        code, said, _ = await refused(world, ASKED, "family")
        assert (code, said) == (
            "22023",
            "project is 'family', and memoryd.project of this transaction is 'office'",
        )
    assert await world.fetchval(now) == ""


async def test_agents_find_no_rows_of_another_project(world: asyncpg.Connection) -> None:
    async with acting_as(world, None, role="memoryd_service"):
        of_ann = f"select content from recall('lantern', user_id => $2, match_count => 50, {HERE})"
        for project, seen in FOUND.items():
            assert texts(await world.fetch(of_ann, project, ANN)) == seen
        everything = await world.fetch(ASKED, "board")
        assert texts(everything) == rows(shared=(None, "board"), own=(None, "board"))


async def test_a_context_block_has_no_memory_of_another_project(world: asyncpg.Connection) -> None:
    async with acting_as(world, ANN):
        await world.execute("set local memoryd.project = 'family'")
        block = await world.fetchval("select build_context('alice', 'the lantern')")
    assert [name for name in ("None", "family", "office", "board") if f"ann, {name}" in block] == [
        "None",
        "family",
    ]


@pytest.mark.parametrize(
    ("sources", "seen"),
    [
        (("None",), True),
        (("None", "family"), True),
        (("None", "office"), False),
        (("family", "gone"), False),
        ((), True),
    ],
)
async def test_an_insight_is_found_where_all_that_it_was_drawn_from_is(
    world: asyncpg.Connection, sources: tuple[str, ...], seen: bool
) -> None:
    """It quotes its memories. Of a memory that is gone nobody knows the project any more."""
    drawn_from = [
        await world.fetchval(
            "select id from agent_memory where content = $1", f"memory: lantern, ann, {name}"
        )
        or UUID(int=0)
        for name in sources
    ]
    await conclude(world, "lanterns are lit at dusk", 0.9, user_id=ANN, source_memories=drawn_from)
    asked = f"select content from recall('lanterns dusk', sources => '{{insight}}', {HERE})"
    async with acting_as(world, ANN):
        assert len(await world.fetch(asked, None)) == 1
        assert len(await world.fetch(asked, "family")) == seen
        await world.execute("set local memoryd.project = 'family'")
        block = await world.fetchval("select build_context('alice', 'lanterns at dusk')")
        assert ("lanterns are lit at dusk" in block) == seen


@pytest.mark.parametrize("blank", ["", "  "])
async def test_a_blank_project_is_refused(world: asyncpg.Connection, blank: str) -> None:
    state, said, hint = await refused(world, f"select * from recall('lantern', {HERE})", blank)
    assert (state, said) == ("23514", f'project is "{blank}"')
    assert hint == "Name the current project as the metadata of rows do, or leave it out."


async def test_requests_and_the_command_line_take_a_project(
    world: asyncpg.Connection, database_url: str, daemon: DaemonProcess, tmp_path: Path
) -> None:

    async def answer(kind: str, options: dict[str, object]) -> str:
        asked = await insert(
            world,
            "memory_requests",
            {
                "kind": kind,
                "query": "lantern",
                "agent_id": "alice",
                "user_id": ANN,
                "options": json.dumps(options),
            },
        )
        await until(world, ANSWERED, asked)
        assert await world.fetchval("select error from memory_requests where id = $1", asked) is None
        return str(await world.fetchval("select result #>> '{}' from memory_requests where id = $1", asked))

    for project in (None, "family", "board"):
        # A dream may come in between.
        sources = ["memory", "conversation", "document"]
        options: dict[str, object] = {"match_count": 50, "sources": sources, "project": project}
        recalled = json.loads(await answer("recall", options))
        assert sorted(r["content"] for r in recalled) == FOUND[project]
    block = await answer("context", {"project": "family"})
    assert "ann, family" in block
    assert "office" not in block
    shown = await memoryd(
        "recall", "lantern", "--user", str(ANN), "--project", "board", "--source", "memory", "-n", "50", "--json",
        url=database_url, folder=tmp_path,
    )  # fmt: skip
    assert sorted(row["content"] for row in shown.json) == rows(shared=(), own=(None, "board"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"project": 5}, "project is 5"),
        ({"project": ["family"]}, 'project is ["family"]'),
        ({"project": " "}, 'project is " "'),
        ({"projects": "family"}, "unknown option projects"),
    ],
)
@pytest.mark.parametrize("kind", ["recall", "context"])
async def test_a_project_that_is_no_name_is_refused_by_the_insert(
    connection: asyncpg.Connection, kind: str, options: dict[str, object], said: str
) -> None:
    ask = "insert into memory_requests (kind, query, agent_id, options) values ($1, 'lantern', 'alice', $2)"
    state, message, hint = await refused(connection, ask, kind, json.dumps(options))
    assert (state, message) == ("23514", said)
    assert ("Did you mean project?" in hint) or hint.startswith("Name the current project")


async def test_the_example_in_the_documents_finds_what_it_says(connection: asyncpg.Connection) -> None:
    """Beside each question stands what it finds."""
    statements = sql_blocks("docs/sql.md")
    begin = next(n for n, one in enumerate(statements) if "allowed_contexts)" in one)
    asked = 0
    async with connection.transaction():
        for statement in statements[begin:]:
            answered = await connection.fetch(statement)
            if "-- finds" in statement:
                told = statement.partition("-- finds ")[2].splitlines()[0]
                assert sorted(str(row[0]) for row in answered) == sorted(told.split("; "))
                asked += 1
            if statement.strip().startswith("reset role"):
                break
    assert asked >= 3
