"""What a team decided, why, and how it turned out: the outcome scores the decision that it names.

Run: python examples/team_decisions.py
"""

import asyncio
import os

from memoryd_client import Decision, Knowledge


async def release(url: str) -> list[Decision]:
    async with Knowledge(url, agent="saber", org="fennel") as team:
        noted = await team.note(
            "Releases are tagged before they are published.",
            "decision",
            tags=["release"],
            decision_context={"reasoning": "The page is built from the tag.", "review_by": "2999-01-01"},
        )
        await team.recall("how do we release?", count=3)
        if noted.id:  # of an entry that says it already, too
            await team.note(
                "It took five minutes.", "outcome", related_ids=[noted.id], outcome={"success": True}
            )
        return await team.decisions(tag="release", open_only=False)


for decision in asyncio.run(release(os.environ["DATABASE_URL"])):
    print(decision.title, decision.state, decision.success)

# Output:
# Releases are tagged before they are published. scored True
