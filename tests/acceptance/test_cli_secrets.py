"""memoryd secrets: keys, values from stdin to stdout, and rows that are encrypted with the newest key whatever happens."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import asyncpg
import pytest

from plugins.secrets.keys import MAX_BYTES, SecretKeys, add_key, read_keys
from tests.support.access.acting import ANN, BOB
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import remember
from tests.support.waiting import IDLE, until

SECRET = "sk-zanzibar"
NUMBER = "1.10000000000000000000001"
WRONG = "It cannot be decrypted: it was encrypted for another field or another user, or was changed."
ENCRYPTED = "select count(*) from agent_memory where memoryd.is_encrypted(metadata -> 'api_key')"
FIELDS = "insert into memoryd.settings values ('secret_fields', '\"api_key\"')"


@pytest.fixture
def keyed(tmp_path: Path) -> Path:
    """Where the private keys are to be."""
    (tmp_path / "keys").mkdir()
    return tmp_path / "keys" / "secrets.key"


def opened(keys: SecretKeys, value: object, user: object = ANN) -> str:
    """What is in a value of `api_key` that the newest key has encrypted."""
    assert keys.newest.id in json.dumps(value)
    return keys.decrypt(json.dumps(value), field="api_key", user=user).decode()  # type: ignore[arg-type]


def write(file: Path, text: str) -> None:
    """A person's file."""
    file.write_text(text, "utf-8")


def private_lines(file: Path) -> list[str]:
    """What must be nowhere else."""
    return [line for line in file.read_text().splitlines() if "PRIVATE KEY" not in line]


async def test_a_value_from_stdin_to_a_row_and_back(
    memoryd: Commands, keyed: Path, connection: asyncpg.Connection, daemons: Daemons
) -> None:
    assert (await memoryd("secrets", "encrypt", "api_key", stdin=b"x")).sentences == [
        "The database has no public key. To make one: memoryd secrets new-key"
    ]
    assert (await memoryd("secrets", "new-key", secrets_key_file=keyed)).code == 0
    daemon = await daemons.start(secret_fields="API_Key", log_level="debug")
    # The private key is not needed to encrypt.
    made = await memoryd("secrets", "encrypt", "api_key", "--user", str(ANN), stdin=f"{SECRET}\n".encode())
    assert made.code == 0, made.err
    metadata = {"tools": [{"api_key": made.json}]}
    await remember(connection, "the staging server", user_id=ANN, metadata=json.dumps(metadata))
    with pytest.raises(asyncpg.CheckViolationError):
        await remember(connection, "the same", metadata=json.dumps({"api_key": SECRET}))
    # The front matter of a file becomes metadata.
    write(keyed.parent / "note.md", f"---\napi_key: {SECRET}\n---\nthe staging server")
    ingested = await memoryd("ingest", str(keyed.parent / "note.md"))
    assert ingested.code == 1
    assert "has the secret field api_key" in ingested.out + ingested.err
    assert SECRET not in ingested.out + ingested.err
    kept = await connection.fetchval("select metadata #> '{tools,0,api_key}' from agent_memory")
    # No database is needed to decrypt.
    nowhere = Commands("postgresql://nobody@127.0.0.1:1/none", keyed.parent)

    async def decrypt(*arguments: str) -> tuple[str, list[str]]:
        done = await nowhere("secrets", "decrypt", *arguments, stdin=kept.encode(), secrets_key_file=keyed)
        return done.out, done.sentences

    assert await decrypt("API_KEY", "--user", str(ANN)) == (SECRET, [])
    assert await decrypt("api_key") == ("", [WRONG])
    [key] = read_keys(keyed).ids
    assert (await memoryd("secrets", "--json")).json["values"] == {"agent_memory.metadata": {key: 1}}
    await until(connection, IDLE)
    await daemon.stop()
    everywhere = await connection.fetchval(
        "select string_agg(t.x, '') from (select value::text from memoryd.settings union all "
        "select payload::text from memoryd.jobs union all select m::text from agent_memory m) as t(x)"
    )
    for hidden in (SECRET, private_lines(keyed)[0]):
        assert hidden not in daemon.text() + everywhere
    # With another key nothing is embedded again: there is nothing to do for a daemon.
    assert (await memoryd("secrets", "new-key", secrets_key_file=keyed)).code == 0
    done = await memoryd("secrets", "reencrypt", "--json", secrets_key_file=keyed)
    assert done.json == {"from_plain": 0, "from_older_keys": 1, "failed": {}}
    assert await connection.fetchval("select count(*) from memoryd.jobs") == 0


async def test_what_is_no_value_no_field_or_no_private_file_is_refused(keyed: Path) -> None:
    nowhere = Commands("postgresql://nobody@127.0.0.1:1/none", keyed.parent)
    add_key(keyed)

    async def sentence(*arguments: str, stdin: bytes, code: int = 1) -> str:
        done = await nowhere("secrets", *arguments, stdin=stdin, secrets_key_file=keyed)
        assert (done.code, done.out) == (code, "")
        [told] = done.sentences
        assert SECRET not in told
        return told

    assert "nothing on stdin" in await sentence("encrypt", "api_key", stdin=b"\n")
    assert "longer than 700,000 bytes" in await sentence("encrypt", "api_key", stdin=b"x" * (MAX_BYTES + 1))
    surrogate = SECRET.encode() + "\ud800".encode("utf-8", "surrogatepass")
    assert "not in UTF-8" in await sentence("encrypt", "api_key", stdin=surrogate)
    assert "has a name of letters" in await sentence("encrypt", 'api"key', stdin=b"x", code=2)
    assert "is not an encrypted value" in await sentence("decrypt", "api_key", stdin=SECRET.encode())
    odd = b"a\0b\n" + SECRET.encode() * 60_000
    made = await nowhere("secrets", "encrypt", "api_key", stdin=odd, secrets_key_file=keyed)
    value = made.out.encode()
    back = await nowhere("secrets", "decrypt", "api_key", stdin=value, secrets_key_file=keyed)
    assert back.out.encode() == odd
    os.chmod(keyed, 0o640)  # noqa: PTH101 - in an async function
    assert f"chmod 600 {keyed}" in await sentence("decrypt", "api_key", stdin=value)
    embedded = Commands(None, keyed.parent)
    inside = await embedded("secrets", "new-key", secrets_key_file=keyed.parent / "data" / "x" / "key")
    assert "is in the data folder" in inside.sentences[0]


async def test_what_is_plain_or_of_an_older_key_is_encrypted_with_the_newest(
    memoryd: Commands, keyed: Path, connection: asyncpg.Connection
) -> None:
    assert (await memoryd("secrets", "new-key", secrets_key_file=keyed)).code == 0
    old = (await memoryd("secrets", "encrypt", "api_key", "--user", str(ANN), stdin=b"old")).out.strip()
    one = await connection.fetchval(
        "insert into agent_memory (agent_id, content, user_id, metadata) values ('a', 'b', $1, $2::text::jsonb) returning id",
        ANN,
        f'{{"n": {NUMBER}, "api_key": "{SECRET}", "deep": [{{"Api_Key": {NUMBER}}}, {{"token": {old}}}], '
        f'"api": {{"api_key": {old}}}}}',
    )
    # Another user's, copied from the first one; of a key that nobody has.
    two = await remember(connection, "c", user_id=BOB, metadata=f'{{"api_key": {old}}}')
    lost = {"encrypted": "1.0123456789abcdef." + "A" * 64}
    three = await remember(connection, "d", metadata=json.dumps({"api_key": lost}))
    await connection.execute(
        "insert into chat_groups (platform, group_metadata) values ('x', '{\"api_key\": \"g\"}')"
    )
    await connection.execute(FIELDS)
    await connection.execute("select memoryd.anchor($1, 'decision')", one)
    leaf = "select leaf from memoryd.trail_leaves"
    leaves = await connection.fetch(leaf)
    others = "select xmin::text, id from agent_memory where id <> $1 order by id"
    before = await connection.fetch(others, one)
    assert (await memoryd("secrets", "new-key", secrets_key_file=keyed)).code == 0
    keys = read_keys(keyed)
    counted = (await memoryd("secrets", "--json")).json["values"]
    assert counted["chat_groups.group_metadata"] == {"plain": 1}
    # That of `token`, which is no secret field, is one of the older key all the same.
    assert counted["agent_memory.metadata"] == {"plain": 2, keys.ids[1]: 3, "0123456789abcdef": 1}
    done = await memoryd("secrets", "reencrypt", "--json", secrets_key_file=keyed)
    assert done.code == 1
    assert done.json == {
        "from_plain": 3,
        "from_older_keys": 1,
        "failed": {
            WRONG: sorted([f"agent_memory.metadata {two}, api_key", f"agent_memory.metadata {one}, token"]),
            f"It was encrypted with key 0123456789abcdef, which is not in {keyed}.": [
                f"agent_memory.metadata {three}, api_key"
            ],
        },
    }
    assert SECRET not in done.out + done.err
    row = await connection.fetchval("select metadata::text from agent_memory where id = $1", one)
    assert f'"n": {NUMBER}' in row
    metadata = json.loads(row)
    assert opened(keys, metadata["api_key"]) == SECRET
    assert opened(keys, metadata["deep"][0]["Api_Key"]) == NUMBER
    assert opened(keys, metadata["api"]["api_key"]) == "old"
    assert metadata["deep"][1]["token"] == json.loads(old)
    assert await connection.fetch(others, one) == before
    assert await connection.fetch(leaf) == leaves
    # Nothing is left to do, and nothing is done.
    again = await memoryd("secrets", "reencrypt", "--json", secrets_key_file=keyed)
    assert (again.json["from_plain"], again.json["from_older_keys"]) == (0, 0)
    shown = await memoryd("secrets")
    assert "of older keys: memoryd secrets reencrypt" in shown.err


async def test_a_memory_that_a_person_deleted_comes_back_with_its_values_encrypted(
    memoryd: Commands, keyed: Path, connection: asyncpg.Connection
) -> None:
    # Also many values in one row, at every depth.
    tools = [[{"n": n, "login": {"Api_Key": f"s{n}", "1": None}}] for n in range(300)]
    memory = await remember(
        connection, "b", user_id=ANN, metadata=json.dumps({"api_key": SECRET, "tools": tools})
    )
    # Knowledge has no metadata: what its fields are named is nobody's secret.
    await connection.execute(
        "insert into memoryd.replica_buried (source, row_id, user_id, row) "
        "select s.source, m.id, m.user_id, to_jsonb(m) - 'embedding' "
        "from agent_memory m cross join unnest('{memory,knowledge}'::text[]) as s(source)"
    )
    await connection.execute("delete from agent_memory")
    await connection.execute(FIELDS.replace("api_key", "api_key|content"))
    assert (await memoryd("secrets", "new-key", secrets_key_file=keyed)).code == 0
    assert (await memoryd("secrets", "--json")).json["values"] == {
        "memoryd.replica_buried.row": {"plain": 301}
    }
    done = await memoryd("secrets", "reencrypt", "--json", secrets_key_file=keyed)
    assert done.json == {"from_plain": 301, "from_older_keys": 0, "failed": {}}
    kept = "select row #>> '{metadata,api_key}' from memoryd.replica_buried where source = 'knowledge'"
    assert await connection.fetchval(kept) == SECRET
    await connection.execute("delete from memoryd.replica_buried where source = 'knowledge'")
    assert (await memoryd("replica", "undelete", str(memory))).code == 0
    [back] = await connection.fetch("select content, metadata from agent_memory where id = $1", memory)
    metadata, keys = json.loads(back["metadata"]), read_keys(keyed)
    assert back["content"] == "b"
    assert opened(keys, metadata["api_key"]) == SECRET
    for [tool] in metadata["tools"]:
        assert opened(keys, tool["login"].pop("Api_Key")) == f"s{tool['n']}"
        assert tool == {"n": tool["n"], "login": {"1": None}}
    assert [tool["n"] for [tool] in metadata["tools"]] == list(range(300))


async def test_killed_in_the_middle_and_two_at_once_encrypt_each_value_once(
    memoryd: Commands, keyed: Path, connection: asyncpg.Connection
) -> None:
    # More than are read at once.
    rows = 220
    await connection.execute(
        "insert into agent_memory (agent_id, content, user_id, metadata) "
        "select 'a', 'memory ' || n, case when n % 2 = 0 then $1::uuid end, "
        "jsonb_build_object('n', n, 'api_key', 's' || n) from generate_series(1, $2::integer) n",
        ANN,
        rows,
    )
    # One whose metadata would be too long when it is encrypted: the others of its batch are done all the same.
    long = await remember(
        connection, "long", metadata=json.dumps({"api_key": "s" * 600_000, "x": "x" * 400_000})
    )
    await connection.execute(FIELDS)
    assert (await memoryd("secrets", "new-key", secrets_key_file=keyed)).code == 0
    # Somebody's open transaction keeps the next value waiting.
    blocker = await connection.fetchval(
        "select id from memoryd.secrets_stored() where id <> $1 offset 120 limit 1", long
    )
    async with connection.transaction():
        await connection.execute("select from agent_memory where id = $1 for update", blocker)
        killed = await memoryd.start("secrets", "reencrypt", secrets_key_file=keyed)
        await until(connection, f"select ({ENCRYPTED}) >= 119")
        killed.kill()
        await killed.wait()
    first = await connection.fetchval(ENCRYPTED)
    # All before the blocked one, or the killed program was one short; and the blocked one, if the server still did it.
    assert first in (119, 120, 121)
    both = await asyncio.gather(
        *(memoryd("secrets", "reencrypt", "--json", secrets_key_file=keyed) for _ in range(2))
    )
    # The statement that waited for the lock may have been carried out, though nobody waited for its end.
    assert rows - first - sum(each.json["from_plain"] for each in both) in (0, 1)
    for each in both:
        assert each.code == 1
        [(why, where)] = each.json["failed"].items()
        assert why.startswith("metadata has 1")
        assert where == [f"agent_memory.metadata {long}, api_key"]
    keys = read_keys(keyed)
    kept = await connection.fetch("select metadata, user_id from agent_memory where id <> $1", long)
    for row in kept:
        metadata = json.loads(row["metadata"])
        assert opened(keys, metadata["api_key"], row["user_id"]) == f"s{metadata['n']}"
