"""memoryd mcp: what agents remember, for clients of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

import typer

from daemon.cli.common import id_option, open_database, postgres
from daemon.cli.failure import Failure, Misuse, sentences
from memory.text import is_blank
from plugins.mcp.any_folder import settings_in_any_folder
from plugins.mcp.settings import Mcp

if TYPE_CHECKING:
    import socket

    from daemon.db.pool import Database
    from daemon.settings import Settings
    from plugins.mcp.identity import Identity


class Tools(StrEnum):
    ALL = "all"
    BASIC = "basic"


def mcp(
    agent: str = typer.Option(..., help="The agent whose memory it is."),
    user: UUID | None = id_option(
        says="Act for this end user, with an end user's rights: their own rows and what is shared."
    ),
    org: UUID | None = id_option(
        says="The organisation whose knowledge it is. Left out: knowledge without an organisation."
    ),
    project: str | None = typer.Option(None, help="The project or channel of calls that name none."),
    tools: Tools = typer.Option(
        Tools.ALL, help="basic: only remember, recall and supersede, a third of the tokens."
    ),
    http: bool = typer.Option(
        False,
        "--http",
        help="Serve streamable HTTP on 127.0.0.1 instead of stdio; needs a token (MEMORYD_MCP_TOKEN).",
    ),
    port: int = typer.Option(
        8722, min=0, max=65535, help="With --http: the port. 0: a free one, which the log names."
    ),
    time_limit: float = typer.Option(30.0, min=0.1, max=120.0, help="Time limit of a call, in seconds."),
) -> None:
    """Serve the memory of an agent to a client of the Model Context Protocol (MCP), such as Claude Code or Cursor.

    Tools: remember, recall, get, supersede, context, know, feedback, forget, explain. It reads nothing from the folder that it
    is started in, also no .env: the environment names the database, or a file (MEMORYD_ENV_FILE). It needs the extra mcp: see
    docs/mcp.md
    """
    with sentences():
        try:
            import mcp.server  # noqa: F401 - is it installed?
        except ImportError:
            from providers.ports import missing

            raise Failure(missing("memoryd mcp", "mcp")) from None
        if is_blank(agent) or len(agent) > 200:
            raise Misuse("--agent needs the agent's id, of at most 200 characters.")
        if project is not None and (is_blank(project) or len(project) > 200):
            raise Misuse("--project needs a name of at most 200 characters. Or leave it out.")
    settings = settings_in_any_folder()
    # The SDK's warnings quote what clients send.
    logging.getLogger("mcp").setLevel(logging.ERROR)
    from plugins.mcp.identity import Identity

    who = Identity(agent, user, org, project)
    with sentences():
        door = _door(settings, port) if http else None
    with sentences(), postgres(settings, existing=True) as (url, _server):
        asyncio.run(_serve(settings, url, who, door, time_limit, basic=tools is Tools.BASIC))


def _door(settings: Settings, port: int) -> tuple[str, socket.socket]:
    from plugins.mcp.token import read_token
    from plugins.operate.callers import listen

    token = read_token(settings.section(Mcp).mcp_token)
    try:
        return token, listen(port)
    except OSError as error:
        raise Failure(f"Port {port} cannot be used: {error.strerror}. Give another: --port") from None


async def _serve(
    settings: Settings,
    url: str,
    who: Identity,
    door: tuple[str, socket.socket] | None,
    seconds: float,
    *,
    basic: bool,
) -> None:
    from daemon.logs import get_logger
    from daemon.settings.databases import address_of
    from plugins.mcp.calls import Calls
    from plugins.mcp.identity import check_identity
    from plugins.mcp.server import build_server

    log = get_logger()
    async with AsyncExitStack() as stack:

        async def opened() -> Database:
            async with AsyncExitStack() as trying:
                database = await trying.enter_async_context(
                    open_database(settings, url, application="memoryd mcp")
                )
                await check_identity(database, who, seconds=seconds)
                stack.push_async_callback(trying.pop_all().aclose)
            return database

        calls = Calls(opened, who, seconds=seconds, logger=log)
        await calls.begin()
        server = build_server(calls, basic=basic)
        log.info(
            "mcp_started",
            transport="stdio" if door is None else "http",
            database=address_of(url),
            agent_id=who.agent,
            user_id=None if who.user is None else str(who.user),
        )
        if door is None:
            from plugins.mcp.stdio import serve_stdio

            await serve_stdio(server, stack.aclose, logger=log)
        else:
            from plugins.mcp.http import serve_http

            token, listening = door
            answers = calls.database_answers
            await serve_http(server, token=token, listening=listening, answers=answers, logger=log)
