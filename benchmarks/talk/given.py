"""What a chatbot without a language model is given: whether the answer is in it, and whether small talk brings nothing.

    python -m benchmarks.talk.given --chats FILE [--show]

Writes the chats (benchmarks/talk/labelled.py says what a file has), indexes them, and asks after the last message. `any@5`: of
how many questions a message that answers them is among the first five that recall brings; `in the context`: is in the block of
build_context. `needs memory`: the same of messages that ask for nothing that was said, and need it all the same. `small talk`:
of how many messages that need nothing the block has a line. benchmarks/talk/small_talk.json has short messages of both kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import asyncpg

from benchmarks.harness import Figures, command, daemon, until_idle
from benchmarks.talk.labelled import INSERT, Chat, plain, read_chats

FIRST = 5
RECALL = """
select id from recall($1, user_id => $2, match_count => $3, options => jsonb_build_object('asked_at', $4::timestamptz))
"""
CONTEXT = "select build_context('chatbot', $1, $2, jsonb_build_object('asked_at', $3::timestamptz))"


async def measure(
    url: str,
    connection: asyncpg.Connection,
    *,
    chats: Annotated[Path, "conversations with labels"],
    show: Annotated[bool, "print what is not as it should be"] = False,
) -> Figures:
    """Writes, waits, asks."""
    told = read_chats(chats)
    async with daemon(url):
        for chat in told:
            for session in chat.sessions:
                await connection.executemany(INSERT, chat.rows(session))
        await until_idle(connection)
        return await _asked(connection, told, show=show)


async def _asked(connection: asyncpg.Connection, chats: Sequence[Chat], *, show: bool) -> Figures:
    right: dict[str, list[bool]] = {"any@5": [], "in the context": [], "needs memory": [], "small talk": []}

    def judge(name: str, chat: Chat, text: str, *, fine: bool) -> None:
        right[name].append(fine)
        if show and not fine:
            print(f"{chat.name} {name}: {text}")

    for chat in chats:
        texts = {turn.id: turn.text for session in chat.sessions for turn in session}
        for question in chat.questions:
            block = await connection.fetchval(CONTEXT, question.text, chat.user, chat.ends)
            said = plain(block)
            fine = any(plain(texts[one])[:60] in said for one in question.answers)
            if question in chat.needs:
                judge("needs memory", chat, question.text, fine=fine)
                continue
            judge("in the context", chat, question.text, fine=fine)
            rows = await connection.fetch(RECALL, question.text, chat.user, FIRST, chat.ends)
            found = {row["id"] for row in rows}
            judge("any@5", chat, question.text, fine=bool(found & set(question.answers)))
        for text in chat.small_talk:
            block = await connection.fetchval(CONTEXT, text, chat.user, chat.ends)
            judge("small talk", chat, text, fine=not block)
    figures: Figures = {
        name: f"{sum(fine)} of {len(fine)} ({sum(fine) / max(1, len(fine)):.3f})"
        for name, fine in right.items()
    }
    figures["small talk"] = f"{right['small talk'].count(False)} of {len(right['small talk'])} with a line"
    return figures


if __name__ == "__main__":
    command(__doc__, measure)
