"""A daemon that finds facts with a language model: from a message to a memory, and a setting that lacks its model."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import asyncpg

from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import column
from tests.support.services.openai_server import OpenAIServer
from tests.support.waiting import IDLE, until

MARKER = "Xylophonia"


def answer(request: dict[str, Any]) -> str:
    if "refuse" in request["messages"][1]["content"]:
        return f"I refuse to speak of {MARKER}"
    fact = {
        "attribute": "home",
        "value": MARKER,
        "sentence": f"The user lives in {MARKER}.",
        "last_day": None,
    }
    return json.dumps({"facts": [fact]})


async def test_a_daemon_remembers_what_the_model_finds_and_logs_nothing_of_it(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    user = uuid4()
    with OpenAIServer() as server:
        server.chat = answer
        daemon = await daemons.start(
            log_level="debug", facts="model", language_model="openai/any", openai_base_url=server.base_url
        )
        await connection.execute(
            "insert into conversation_messages (session_id, user_id, agent_id, role, content)"
            " select gen_random_uuid(), $1, 'alice', 'user', t from unnest($2::text[]) t",
            user,
            [f"all my boxes are unpacked in {MARKER}", f"I refuse to say {MARKER} twice", "thanks!"],
        )
        await until(connection, IDLE)
        found = await column(connection, "select content from agent_memory where user_id = $1", user)
        assert found == [f"The user lives in {MARKER}."]
        assert len(server.requests) == 3  # a useless reply is asked for once more
        await daemon.stop()
    assert daemon.events("batch_done")
    assert MARKER.lower() not in daemon.text().lower()


async def test_facts_by_a_model_that_is_not_set_are_refused(memoryd: Commands) -> None:
    found = await memoryd("run", facts="model")
    assert found.code == 1
    [sentence] = found.sentences
    assert "MEMORYD_LANGUAGE_MODEL" in sentence
    found = await memoryd("doctor", "--json", facts="model")
    assert found.code == 1
    checks = {one["name"]: one for one in found.json}
    assert checks["language model"]["verdict"] == "problem"
