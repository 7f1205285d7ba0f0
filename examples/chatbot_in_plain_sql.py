"""The chatbot without memoryd's client: a turn is three statements, which any driver sends.

Run: python examples/chatbot_in_plain_sql.py
"""

import asyncio
import json
import os
from uuid import UUID, uuid4

import asyncpg

SAY = "insert into conversation_messages (session_id, user_id, role, content) values ($1, $2, $3, $4)"
RECALL = "select content from recall($1, user_id => $2, match_count => 5, options => $3)"
SAID = "select role, content from load_context($1, 12)"


async def reply(db: asyncpg.Connection, user: UUID, session: UUID, text: str) -> str:
    options = json.dumps({"exclude_session": str(session), "around": 2, "relevant_only": True, "profile": 60})
    remembered = "\n\n".join([r["content"] for r in await db.fetch(RECALL, text, user, options)])
    heading = {"role": "system", "content": f"What you remember of this user:\n\n{remembered}"}
    messages = [heading] if remembered else []
    messages += [dict(r) for r in await db.fetch(SAID, session)]
    # What the user says is not read back: where memory is switched off, nothing is stored.
    messages.append({"role": "user", "content": text})
    await db.execute(SAY, session, user, "user", text)
    answer = ask_your_model(messages)
    await db.execute(SAY, session, user, "assistant", answer)
    return answer


def ask_your_model(messages: list[dict[str, str]]) -> str:
    """Yours; this one shows what it is given."""
    for message in messages:
        print(f"{message['role']}: {message['content']}")
    return "I see."


async def main() -> None:
    db, ann, bob = await asyncpg.connect(os.environ["DATABASE_URL"]), uuid4(), uuid4()
    await reply(db, ann, uuid4(), "My sister Dora plays the tuba")
    await reply(db, bob, uuid4(), "My brother plays the harp")
    await reply(db, ann, uuid4(), "Which instrument does Dora play?")


asyncio.run(main())

# Output:
# user: My sister Dora plays the tuba
# user: My brother plays the harp
# system: What you remember of this user:
# [...]
# user: My sister Dora plays the tuba
# assistant: I see.
# user: Which instrument does Dora play?
