"""Secret fields of metadata: a value that is not encrypted is refused in every column, by every way in, and is not quoted."""

from __future__ import annotations

import json
from uuid import uuid4

import asyncpg
import pytest

from daemon.db.settings import write_settings
from daemon.settings import SettingsError, load_settings
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.rows import remember

SECRET = "sk-zanzibar"
# Garbage of the right form is accepted: only who has the private key knows.
FORM = {"encrypted": "1.0123456789abcdef." + "A" * 64}
REFUSED = asyncpg.CheckViolationError
SET = "update memoryd.settings set value = '\"api_key|access_token\"' where key = 'secret_fields'"
PLAIN = [
    {"api_key": SECRET},
    {"API_Key": SECRET},
    {"api\u005fkey": SECRET, "n": 1},
    {"api_key": ""},
    {"api_key": 7},
    {"api_key": [FORM]},
    {"api_key": {"value": SECRET}},
    {"api_key": {**FORM, "also": SECRET}},
    {"api_key": {"encrypted": SECRET}},
    {"api_key": {"encrypted": FORM["encrypted"] + "\n"}},
    {"api_key": {"encrypted": FORM}},
    {"tool": {"login": {"access_token": SECRET}}},
    {"tools": [1, [{"api_key": SECRET}]]},
    {"api_key": FORM, "b": {"api_key": SECRET}},
]
FINE = [
    {},
    {"api_key": FORM},
    {"API_KEY": FORM},
    {"api_key": None},
    {"tools": [{"api_key": FORM}, {"access_token": FORM}]},
    {"api_keys": SECRET, "note": 'say "api_key": aloud', "list": ["api_key"]},
    {"encrypted": SECRET},
]


@pytest.fixture
async def scratch(scratch: asyncpg.Connection) -> asyncpg.Connection:
    await write_settings(scratch, load_settings(secret_fields="api_key, Access_Token"))
    return scratch


async def is_refused(connection: asyncpg.Connection, sql: str, *args: object) -> None:
    """By an error that names the field, says what to do, and does not have the value."""
    with pytest.raises(REFUSED) as raised:
        async with connection.transaction():
            await connection.execute(sql, *args)
    error = raised.value
    assert "has the secret field " in str(error)
    assert "memoryd secrets encrypt" in str(error.hint)
    said = " ".join(
        str(getattr(error, name, "")) for name in ("message", "detail", "hint", "context", "where")
    )
    assert SECRET not in said + str(error)


@pytest.mark.parametrize("metadata", PLAIN)
async def test_a_value_that_is_not_encrypted_is_refused(
    scratch: asyncpg.Connection, metadata: dict[str, object]
) -> None:
    given = json.dumps(metadata)
    await is_refused(
        scratch, "insert into agent_memory (agent_id, content, metadata) values ('a', 'b', $1)", given
    )
    memory = await remember(scratch, "b")
    await is_refused(scratch, "update agent_memory set metadata = $2 where id = $1", memory, given)


async def test_what_is_encrypted_or_no_secret_is_stored(scratch: asyncpg.Connection) -> None:
    for metadata in FINE:
        memory = await remember(scratch, "b", metadata=json.dumps(metadata))
        assert json.loads(
            await scratch.fetchval("select metadata from agent_memory where id = $1", memory)
        ) == (metadata)


INSERTS = {
    ("agent_commands", "metadata"): "insert into agent_commands (agent_id, message, metadata) values ('a', 'b', $1)",
    ("agent_execution_logs", "input_data"):
        "insert into agent_execution_logs (step_name, action_type, input_data) values ('s', 'tool_call', $1)",
    ("agent_execution_logs", "output_data"):
        "insert into agent_execution_logs (step_name, action_type, output_data) values ('s', 'tool_call', $1)",
    ("agent_memory", "metadata"): "insert into agent_memory (agent_id, content, metadata) values ('a', 'b', $1)",
    ("agent_sessions", "session_data"): "insert into agent_sessions (session_data) values ($1)",
    ("chat_groups", "group_metadata"): "insert into chat_groups (platform, group_metadata) values ('slack', $1)",
    ("conversation_messages", "metadata"):
        "insert into conversation_messages (session_id, role, content, metadata) "
        "values (gen_random_uuid(), 'user', 'hi', $1)",
    ("documents", "metadata"): "insert into documents (title, metadata) values ('t', $1)",
    ("memory_chunks", "metadata"):
        "insert into memory_chunks (document_id, chunk_index, chunk_text, metadata) values ('<document>', 0, 'x', $1)",
}  # fmt: skip


async def test_every_column_is_guarded(scratch: asyncpg.Connection) -> None:
    assert {
        (r["table_name"], r["column_name"])
        for r in await scratch.fetch("select * from memoryd.secret_columns()")
    } == set(INSERTS)
    document = await scratch.fetchval("insert into documents (title) values ('t') returning id")
    for (table, column), insert in INSERTS.items():
        sql = insert.replace("<document>", str(document))
        await is_refused(scratch, sql, json.dumps({"a": {"api_key": SECRET}}))
        await scratch.execute(sql, json.dumps({"a": {"api_key": FORM}}))
        await is_refused(scratch, f"update {table} set {column} = $1", json.dumps({"access_token": SECRET}))


async def test_what_is_copied_in_is_guarded(admin_scratch: asyncpg.Connection) -> None:
    """COPY is for those whom no policy holds: Postgres refuses it to others."""
    await write_settings(admin_scratch, load_settings(secret_fields="api_key"))
    records = [("a", "b", json.dumps({"api_key": SECRET}))]
    with pytest.raises(REFUSED) as raised:
        async with admin_scratch.transaction():
            await admin_scratch.copy_records_to_table(
                "agent_memory", records=records, columns=["agent_id", "content", "metadata"]
            )
    assert SECRET not in str(raised.value)


async def test_each_way_in_is_guarded(scratch: asyncpg.Connection) -> None:
    plain = json.dumps({"api_key": SECRET})
    await is_refused(
        scratch,
        "insert into conversation_history (session_id, role, message_text, metadata) "
        "values (gen_random_uuid(), 'user', 'hi', $1)",
        plain,
    )
    export = await scratch.fetchval("select export_user_memory($1)", ANN)
    row = {
        "id": str(uuid4()),
        "agent_id": "a",
        "content": "b",
        "user_id": str(ANN),
        "metadata": json.loads(plain),
    }
    await is_refused(
        scratch, "select memoryd.import_rows($1, $1, 'agent_memory', $2)", ANN, json.dumps([row])
    )
    assert json.loads(export)["tables"]["agent_memory"] == []
    async with acting_as(scratch, ANN):
        await is_refused(
            scratch,
            "insert into agent_memory (agent_id, content, user_id, metadata) values ('a', 'b', $1, $2)",
            ANN,
            plain,
        )
        await scratch.execute(
            "insert into agent_memory (agent_id, content, user_id, metadata) values ('a', 'b', $1, $2)",
            ANN,
            json.dumps({"api_key": FORM}),
        )


async def test_a_row_from_before_can_be_changed_elsewhere_and_gets_no_further_secret(
    scratch: asyncpg.Connection,
) -> None:
    await scratch.execute("update memoryd.settings set value = '\"\"' where key = 'secret_fields'")
    memory = await remember(scratch, "b", metadata=json.dumps({"api_key": SECRET}))
    await scratch.execute(SET)
    change = "update agent_memory set metadata = metadata || $2 where id = $1"
    await scratch.execute("update agent_memory set content = 'c' where id = $1", memory)
    await scratch.execute(change, memory, '{"n": 1}')
    for more in ({"access_token": SECRET}, {"api_key": SECRET + "2"}, {"x": {"api_key": 1}}):
        await is_refused(scratch, change, memory, json.dumps(more))
    await scratch.execute(change, memory, json.dumps({"api_key": FORM}))
    await is_refused(scratch, change, memory, json.dumps({"api_key": SECRET}))


async def test_without_the_setting_nothing_is_refused(scratch: asyncpg.Connection) -> None:
    await write_settings(scratch, load_settings())
    for metadata in PLAIN:
        await remember(scratch, "b", metadata=json.dumps(metadata))


async def test_what_is_nested_deeply_is_refused_before_it_is_searched(scratch: asyncpg.Connection) -> None:
    deep = '{"a": ' * 5000 + '{"api_key": "x"}' + "}" * 5000
    with pytest.raises(REFUSED, match="nested deeper than 64 levels"):
        await remember(scratch, "b", metadata=deep)


async def test_an_encrypted_value_is_no_word_that_a_search_finds_and_a_recall_shows_it_encrypted(
    scratch: asyncpg.Connection,
) -> None:
    await remember(
        scratch, "the staging server of Zanzibar", metadata=json.dumps({"api_key": FORM}), user_id=ANN
    )
    texts = await scratch.fetch("select searched_text from memoryd.searchable where source = 'memory'")
    assert [FORM["encrypted"] in row[0] for row in texts] == [False]
    [found] = await scratch.fetch("select metadata from recall('staging server', user_id => $1)", ANN)
    assert json.loads(found["metadata"])["api_key"] == FORM
    export = json.loads(await scratch.fetchval("select export_user_memory($1)", ANN))
    assert export["tables"]["agent_memory"][0]["metadata"]["api_key"] == FORM
    await scratch.execute("select erase_user_memory($1)", ANN)
    assert await scratch.fetchval("select count(*) from agent_memory where metadata ? 'api_key'") == 0


async def test_clients_get_the_public_key(scratch: asyncpg.Connection) -> None:
    assert await scratch.fetch("select * from secrets_key()") == []
    key = {"key_id": "0" * 16, "public_key": "A" * 43, "suite": "s"}
    await scratch.execute("insert into memoryd.settings values ('secrets_key', $1)", json.dumps(key))
    async with acting_as(scratch, BOB):
        [found] = await scratch.fetch("select * from secrets_key()")
    assert dict(found) == key | {"fields": ["api_key", "access_token"]}


@pytest.mark.parametrize(
    "names", ["api key", "_key", "1key", "ключ", 'a"b', "a.b", "a|b", "x" * 64, "slot", "encrypted"]
)
def test_names_that_cannot_be_secret_fields(names: str) -> None:
    with pytest.raises(SettingsError, match="MEMORYD_SECRET_FIELDS"):
        load_settings(secret_fields=names)
