"""A daemon that reads conversations with a language model: from a message to a memory, and the settings that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.support.content.fact_chat import add, reply, shown
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import column
from tests.support.services.openai_server import OpenAIServer
from tests.support.waiting import until

MARKER = "Xylophonia"
READ = "select not exists (select from memoryd.unread) and not exists (select from memoryd.jobs)"
SAY = """
insert into conversation_messages (session_id, user_id, agent_id, role, content)
select gen_random_uuid(), $1, 'alice', 'user', t from unnest($2::text[]) t
"""


def answer(request: dict[str, Any]) -> str:
    said = shown(request)["messages"]
    if "refuse" in said[0]["text"]:
        return f"I refuse to speak of {MARKER}"
    return reply(add=[add(f"The user lives in {MARKER}.", "m1")] if MARKER in said[0]["text"] else [])


async def test_a_daemon_remembers_what_the_model_finds_and_logs_nothing_of_it(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    """Without MEMORYD_FACTS: the model is there. What has paused is queued by a tick."""
    user = uuid4()
    with OpenAIServer() as server:
        server.chat = answer
        daemon = await daemons.start(
            log_level="debug", language_model="openai/any", openai_base_url=server.base_url
        )
        texts = [f"all my boxes are unpacked in {MARKER}", f"I refuse to say {MARKER} twice", "thanks!"]
        await connection.execute(SAY, user, texts)
        await connection.execute("update memoryd.unread set queued_at = now() - interval '61 seconds'")
        await until(connection, READ)
        found = await column(connection, "select content from agent_memory where user_id = $1", user)
        assert found == [f"The user lives in {MARKER}."]
        assert len(server.requests) == 4  # a useless reply is asked for once more
        await daemon.stop()
    assert len(daemon.events("conversation_read")) == 3
    assert daemon.events("conversation_unread")
    assert MARKER.lower() not in daemon.text().lower()


async def test_what_waits_for_the_next_hours_budget_is_said_once(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    with OpenAIServer() as server:
        server.chat = lambda _: reply()
        daemon = await daemons.start(
            language_model="openai/any", openai_base_url=server.base_url, language_model_calls_per_hour=1
        )
        await connection.execute(
            "insert into conversation_messages (session_id, user_id, role, content) "
            "select md5('s')::uuid, md5('u')::uuid, 'user', 'message ' || n from generate_series(1, 200) n"
        )
        await connection.execute("update memoryd.unread set queued_at = now() - interval '61 seconds'")
        waits = await daemon.event("conversations_wait")
        assert (waits["messages"], waits["users"]) == (180, 1)
        assert 0 < waits["again_in"] <= 3600
        assert len(server.requests) == 1
        assert "message 200" in server.requests[0]["messages"][1]["content"]
        await daemon.stop()


@pytest.mark.parametrize("given", ["rules", "RULES"])
async def test_facts_by_rules_in_an_old_env_file_are_one_warning(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, tmp_path: Path, given: str
) -> None:
    daemon = await daemons.start(facts=given)
    assert daemon.events("daemon_started")[0]["facts"] == "off"
    await connection.execute(SAY, uuid4(), ["I live in Lyon, and my sister is Dora Quist"])
    await until(connection, READ)
    assert await connection.fetchval("select count(*) from agent_memory") == 0
    assert await connection.fetchval("select count(*) from memoryd.names") == 0
    await daemon.stop()
    [warning] = daemon.events("setting_outdated")
    assert (warning["variable"], warning["level"]) == ("MEMORYD_FACTS", "warning")
    assert "MEMORYD_LANGUAGE_MODEL" in warning["hint"]


async def test_facts_by_a_model_that_is_not_set_are_refused(memoryd: Commands) -> None:
    found = await memoryd("run", facts="model")
    assert found.code == 1
    [sentence] = found.sentences
    assert "MEMORYD_LANGUAGE_MODEL" in sentence
    found = await memoryd("doctor", "--json", facts="model")
    assert found.code == 1
    [check] = [one for one in found.json if one["name"] == "language model"]
    assert (check["verdict"], "MEMORYD_FACTS" in check["found"]) == ("problem", True)
