"""What a user may ask of support: a copy of everything, that nothing more is remembered; and what support notes.

Promise: a copy is written to a file first, by support row by row, one at a time, so that neither many rows nor a slow browser
cost memory or hold a transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from tempfile import TemporaryFile
from typing import BinaryIO
from uuid import UUID

import asyncpg
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from daemon.db.errors import DATABASE_FAULTS
from plugins.audit.rule import SECONDS as COPY_SECONDS
from plugins.move_in.cli.export import write_export
from plugins.web.errors import BusyError, NotThereError, sentence_of
from plugins.web.forms import BadValueError, action_in, text_in
from plugins.web.names import IS_USER, NO_SUCH_USER
from plugins.web.pages.memories import LONGEST, LONGEST_SOURCE, SOURCE
from plugins.web.render import tell
from plugins.web.viewer import Viewer, by_indexes, on_behalf, reading, rows_found
from plugins.web.web import Web, viewer_of, web_of

AT_ONCE = 64 * 1024
"""Bytes of a copy that are read from its file at once."""
HELD = (
    "select u.name, (select count(*) from memoryd.user_rows($1, u.name)) as rows from memoryd.user_tables() u"
)
# In the user's own role; on record as their own read.
OWN = """
select e::text as file, (select sum(jsonb_array_length(t.value)) from jsonb_each(e -> 'tables') t) as rows
from public.export_user_memory($1) e
"""
SWITCH = """
insert into public.memory_settings (user_id, memory_enabled) values ($1, $2)
on conflict (user_id) do update set memory_enabled = excluded.memory_enabled
"""
REMEMBER = "select r.id, r.what from public.remember($1, $2, $3) r"
OFF = "Nothing was stored: memory is switched off for this user."


async def change(request: Request) -> Response:
    """Switches a user's memory off or on, or remembers something about them."""
    web, viewer, form = web_of(request), viewer_of(request), request.state.form
    wanted = await known_user(request)
    done = action_in(form, "off", "on", "remember")
    if done == "remember":
        content = text_in(form, "content", longest=LONGEST)
        if content is None:
            raise BadValueError("Write what is to be remembered.", field="content")
        source, agent = (
            text_in(form, "source", longest=LONGEST_SOURCE),
            text_in(form, "agent", longest=200),
        )
        async with on_behalf(web.database, viewer, "agent_memory", "insert", user=wanted) as connection:
            memory = await connection.fetchrow(REMEMBER, content, agent, wanted)
            if memory is None:
                raise BadValueError(OFF, field="content")
            if memory["what"] == "stored":
                await connection.execute(SOURCE, memory["id"], source)
        web.log.info("web_memory_changed", memory_id=str(memory["id"]), action=done)
        tell(request, "saved" if memory["what"] == "stored" else "was remembered already")
        return RedirectResponse(f"/memories/{memory['id']}", status_code=303)
    async with on_behalf(web.database, viewer, "memory_settings", "update", user=wanted) as connection:
        await connection.execute(SWITCH, wanted, done == "on")
    if done == "on":  # While it was off, nothing was put on record.
        async with on_behalf(web.database, viewer, "memory_settings", "update", user=wanted):
            pass
    web.log.info("web_memory_switched", user_id=str(wanted), on=done == "on")
    tell(request, "saved")
    return RedirectResponse(f"/users/{wanted}", status_code=303)


async def copy(request: Request) -> Response:
    """All that is kept about a user, as a file: what `memoryd export` writes."""
    web, viewer = web_of(request), viewer_of(request)
    wanted, copying = await known_user(request, any_row=True), work_lock(web, "copying")
    if copying.locked():
        raise BusyError("A copy is being made already. Wait until that has ended, and send this again.")
    file: BinaryIO = TemporaryFile()  # noqa: SIM115 - the answer closes it
    try:
        async with copying:
            rows = await _write(web, viewer, wanted, file)
    except BaseException as error:
        file.close()
        await _failed(request, wanted)
        if isinstance(error, asyncpg.ProgramLimitExceededError):
            raise BadValueError(sentence_of(error)) from None
        raise
    web.log.info("web_user_exported", user_id=str(wanted), rows=rows)
    length = file.tell()
    file.seek(0)
    name = f'attachment; filename="{wanted}.json"'
    return StreamingResponse(
        _parts(request, wanted, file),
        media_type="application/json",
        headers={"Content-Disposition": name, "Content-Length": str(length)},
    )


async def _write(web: Web, viewer: Viewer, user: UUID, file: BinaryIO) -> int:
    """Writes the copy once it is on record; how many rows it has."""
    if viewer.user is not None:
        async with reading(web.database, viewer, seconds=COPY_SECONDS) as connection:
            own = await connection.fetchrow(OWN, user, timeout=COPY_SECONDS)
        assert own is not None
        file.write(own["file"].encode())
        return int(own["rows"])
    async with on_behalf(web.database, viewer, "export", "select", user=user):
        pass  # on record, whatever becomes of it
    # As the login: a login that may put this on record may read it.
    async with web.database.transaction() as connection:
        return await write_export(connection, user, file)


async def _parts(request: Request, user: UUID, file: BinaryIO) -> AsyncIterator[bytes]:
    is_whole = False
    try:
        while part := await asyncio.to_thread(file.read, AT_ONCE):
            yield part
        is_whole = True
    finally:
        file.close()
        if not is_whole:  # whoever asked has gone, which cancels this task
            web_of(request).kept["failed copy"] = asyncio.create_task(_failed(request, user))


async def _failed(request: Request, user: UUID) -> None:
    """Puts on record that a copy did not come about, where the database answers."""
    web = web_of(request)
    web.log.warning("web_user_export_failed", user_id=str(user))
    with suppress(*DATABASE_FAULTS):
        async with on_behalf(web.database, viewer_of(request), "export_failed", "select", user=user):
            pass


def work_lock(web: Web, work: str) -> asyncio.Lock:
    """Of the whole process."""
    lock = web.kept.setdefault(work, asyncio.Lock())
    assert isinstance(lock, asyncio.Lock)
    return lock


def user_asked(request: Request) -> UUID:
    """The user of the path; for an end user themselves. Raises NotThereError."""
    wanted: UUID = request.path_params["id"]
    if viewer_of(request).user not in (None, wanted):
        raise NotThereError
    return wanted


async def known_user(request: Request, *, any_row: bool = False) -> UUID:
    """The same, of whom something is stored; with `any_row` whatever a copy would have. Raises NotThereError."""
    web, viewer, wanted = web_of(request), viewer_of(request), user_asked(request)
    async with reading(web.database, viewer) as connection, by_indexes(connection):
        [known] = await rows_found(connection, viewer, IS_USER, wanted)
    if not (known["there"] or known["off"]):
        held = await rows_held(web, wanted) if any_row else []
        if held is not None and not any(row["rows"] for row in held):
            raise NotThereError(NO_SUCH_USER)
    return wanted


async def rows_held(web: Web, user: UUID) -> list[asyncpg.Record] | None:
    """How many rows of each table a copy would have; None where the login may not count them."""
    try:
        return await web.database.fetch(HELD, user)
    except asyncpg.InsufficientPrivilegeError:
        return None


routes: list[Route] = [
    Route("/users/{id:uuid}", change, methods=["POST"]),
    Route("/users/{id:uuid}/copy", copy, methods=["POST"]),
]
