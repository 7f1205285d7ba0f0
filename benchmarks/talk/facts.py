"""What a language model makes of conversations: which facts stand at the end, and whether they help to answer.

    python -m benchmarks.talk.facts --chats FILE (--record FILE | --play FILE) [--show] [--parallel N]

--record asks the server of MEMORYD_OPENAI_BASE_URL (MEMORYD_OPENAI_API_KEY) for the model MEMORYD_LANGUAGE_MODEL, and keeps
question and answer in the file; what is in it already is not asked again. --play asks nobody. Daemons read the chats from a
real Postgres, each session after the one before, several chats at once. benchmarks/talk/labelled.py says what a file has.
Nobody who answers may know the labels.

`current and right`: share of the expected facts that a memory states at the end. `stored right`: share of all memories that
were ever stored which a label names; --show prints the others, which may be right all the same. `never`: memories that must
not be. `outdated`: facts that nothing current states any more. `ended wrongly`: expected facts that only a memory states which
was ended or superseded. Then questions, by recall() and by build_context(): whether evidence is among the first five lines,
with the facts, and once more without.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.harness import Figures, arguments, daemon, database, report, until_idle
from benchmarks.talk.labelled import INSERT, Chat, Question, plain, read_chats
from benchmarks.talk.recorded import Recorder

CALLS_OF_A_DAEMON = 4
FIRST = 5
QUEUE = "select memoryd.queue_stretches(16, '0 seconds', $1)"
STORED = """
select m.content, coalesce(array_agg(s.message_id) filter (where s.message_id is not null), '{}') as said_in,
       m.superseded_by is null and (m.valid_to is null or m.valid_to > $2) as current
from agent_memory m left join memoryd.fact_sources s on s.memory_id = m.id
where m.user_id = $1
group by m.id order by m.created_at, m.content
"""
FAILED = "select error from memoryd.dead_letters where topic = 'facts' limit 1"


@dataclass(frozen=True, slots=True)
class Memory:
    """One that was stored."""

    text: str
    said_in: Sequence[Any]
    current: bool


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--chats", type=Path, required=True, help="conversations with labels")
    parser.add_argument("--record", type=Path, help="ask the server, and keep what it answers in this file")
    parser.add_argument("--play", type=Path, help="answer from this file")
    parser.add_argument("--parallel", type=int, default=4, help="chats that are read at once")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for one answer")
    parser.add_argument("--show", action="store_true", help="print what is stored, missing and wrong")
    options = parser.parse_args()
    if (options.record is None) == (options.play is None):
        parser.error("give --record or --play")
    chats = read_chats(options.chats)
    recorder = Recorder(
        options.record or options.play,
        play=options.play is not None,
        upstream=os.environ.get("MEMORYD_OPENAI_BASE_URL"),
        key=os.environ.get("MEMORYD_OPENAI_API_KEY"),
        timeout_seconds=options.timeout,
    )
    with recorder, database(options.database_url) as url:
        figures = asyncio.run(_measure(url, chats, recorder, options))
    report(f"facts of {options.chats.name}", figures, options.json)


async def _measure(url: str, chats: Sequence[Chat], recorder: Recorder, options: Any) -> Figures:
    settings = {
        "language_model": os.environ.get("MEMORYD_LANGUAGE_MODEL", "openai/any"),
        "openai_base_url": recorder.base_url,
        "language_model_calls_per_hour": 1_000_000,
        "language_model_tokens_per_hour": 1_000_000_000,
        "provider_timeout_seconds": options.timeout,
    }
    async with AsyncExitStack() as stack:
        for _ in range(-(-options.parallel // CALLS_OF_A_DAEMON)):
            await stack.enter_async_context(daemon(url, **settings))
        room = asyncio.Semaphore(options.parallel)
        await asyncio.gather(*(_talk(url, chat, room) for chat in chats))
        connection = await asyncpg.connect(url)
        await until_idle(connection)
        stored = {
            chat.name: [Memory(*row) for row in await connection.fetch(STORED, chat.user, chat.ends)]
            for chat in chats
        }
        figures = _judged(chats, stored, show=options.show)
        for name in ("with facts", "without"):
            if name == "without":
                await connection.execute("delete from agent_memory")
                await until_idle(connection)
            found = await _asked(connection, chats, stored, show=options.show)
            total = sum(len(chat.questions) for chat in chats)
            for way in ("recall", "context"):
                figures[f"questions by {way}, {name}"] = f"{found[way]} of {total}"
            figures[f"outdated above it, {name}"] = found["outdated above"]
        await connection.close()
    messages = sum(turn.role == "user" for chat in chats for session in chat.sessions for turn in session)
    return figures | {
        "messages of users": messages,
        "calls": recorder.calls,
        "tokens a thousand messages": round(1000 * recorder.tokens / messages),
        "of them prompt": round(1000 * recorder.prompt_tokens / messages),
        "calls that the recording lacks": recorder.missing,
        "recorded with another prompt": recorder.other_prompt,
    }


async def _talk(url: str, chat: Chat, room: asyncio.Semaphore) -> None:
    """Writes the sessions, each once the one before is read."""
    async with room:
        connection = await asyncpg.connect(url)
        for session in chat.sessions:
            await connection.executemany(INSERT, chat.rows(session))
            while await connection.fetchval(
                "select exists (select from memoryd.unread where user_id = $1)", chat.user
            ):
                await connection.execute(QUEUE, chat.user)
                if error := await connection.fetchval(FAILED):
                    raise SystemExit(f"a conversation could not be read: {error}")
                await asyncio.sleep(0.1)
        await connection.close()


def _judged(chats: Sequence[Chat], stored: dict[str, list[Memory]], *, show: bool) -> Figures:
    count: Counter[str] = Counter()
    for chat in chats:
        memories = stored[chat.name]
        now = [one for one in memories if one.current]
        complaints = []
        for label in chat.expect:
            if any(label.fits(one.text) for one in now):
                count["right"] += 1
            elif any(label.fits(one.text) for one in memories):
                count["ended wrongly"] += 1
                complaints.append(f"ended wrongly: {label.name}")
            else:
                complaints.append(f"missing: {label.name}")
        for label in chat.outdated:
            if any(label.fits(one.text) for one in now):
                complaints.append(f"outdated and current: {label.name}")
            else:
                count["over"] += 1
        for label in chat.never:
            wrong = [
                one
                for one in memories
                if label.fits(one.text) and (not label.said_in or set(label.said_in) & set(one.said_in))
            ]
            count["never"] += bool(wrong)
            complaints += [f"never ({label.name}): {one.text}" for one in wrong]
        named = [
            one for one in memories
            if any(all(_there(m, one.text) for m in label.match) for label in (*chat.expect, *chat.outdated))
        ]  # fmt: skip
        count.update(
            stored=len(memories), named=len(named), expected=len(chat.expect), outdated=len(chat.outdated)
        )
        count["never labels"] += len(chat.never)
        if show:
            for one in memories:
                print(
                    f"{chat.name} {'now   ' if one.current else 'before'} {'' if one in named else '(no label) '}{one.text}"
                )
            print(*(f"{chat.name} {complaint}" for complaint in complaints), sep="\n")
    return {
        "current and right": f"{count['right']} of {count['expected']} ({_share(count['right'], count['expected'])})",
        "stored right": f"{count['named']} of {count['stored']} ({_share(count['named'], count['stored'])})",
        "never, but stored": f"{count['never']} of {count['never labels']}",
        "outdated, ended or superseded": f"{count['over']} of {count['outdated']} ({_share(count['over'], count['outdated'])})",
        "true, but ended wrongly": count["ended wrongly"],
    }


def _there(expression: str, text: str) -> bool:
    return re.search(expression, text, re.IGNORECASE) is not None


def _share(part: int, whole: int) -> float:
    return round(part / max(1, whole), 3)


async def _asked(
    connection: asyncpg.Connection, chats: Sequence[Chat], stored: dict[str, list[Memory]], *, show: bool
) -> Counter[str]:
    found: Counter[str] = Counter()
    for chat in chats:
        texts = {turn.id: turn.text for session in chat.sessions for turn in session}
        for question in chat.questions:
            rows = await connection.fetch(
                "select content from recall($1, user_id => $2, match_count => $3)",
                question.text,
                chat.user,
                FIRST,
            )
            block = await connection.fetchval(
                "select build_context('chatbot', $1, user_id => $2)", question.text, chat.user
            )
            lines = [line for line in (block or "").splitlines() if line.startswith("- ")]
            for way, given in (("recall", [row["content"] for row in rows]), ("context", lines[:FIRST])):
                first = next(
                    (i for i, line in enumerate(given) if _answers(line, question, texts, stored[chat.name])),
                    None,
                )
                found[way] += first is not None
                if question.outdated and any(
                    _there(question.outdated, line) for line in given[: FIRST if first is None else first]
                ):
                    found["outdated above"] += 1
                if show and first is None:
                    print(f"{chat.name} {way} does not answer: {question.text}")
    return found


def _answers(line: str, question: Question, texts: dict[Any, str], memories: Sequence[Memory]) -> bool:
    if question.evidence is not None:
        return _there(question.evidence, line)
    right = [texts[one] for one in question.answers]
    right += [one.text for one in memories if set(one.said_in) & set(question.answers)]
    return any(plain(text)[:60] in plain(line) for text in right)


if __name__ == "__main__":
    main()
