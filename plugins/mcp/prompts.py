"""The prompts: texts that a person picks from a client's menu to begin a turn."""

from __future__ import annotations

from collections.abc import Mapping

import mcp_types as types

ABOUT = types.PromptArgument(name="about", description="What to look up, in a few words.", required=True)
REMEMBERED = (
    "What do you remember about {about}? Ask the tool recall, in two or three different wordings, before you answer. "
    "Say when each thing was remembered, and what contradicts what. If nothing is found, say that nothing is remembered."
)
HAND_OVER = (
    "Before this session ends, store what later sessions need. Ask the tool recall what is remembered already. Then "
    "call the tool remember for each thing that is new and cannot be read from the files: what was decided and why, "
    "what was tried and failed, what is still to be done. One fact a call, complete in itself, with names instead of "
    "pronouns; no credentials. Forget what turned out to be wrong. Then list what you stored."
)
PROMPTS = {
    "remembered": (
        types.Prompt(
            name="remembered",
            title="What is remembered about ...",
            description="Look up what earlier sessions said, did and decided about something.",
            arguments=[ABOUT],
        ),
        REMEMBERED,
    ),
    "hand_over": (
        types.Prompt(
            name="hand_over",
            title="Remember this session",
            description="Store what later sessions need from this one, before it ends.",
            arguments=[],
        ),
        HAND_OVER,
    ),
}
"""Each prompt with the text that the client sends for the person; `{about}` stands for the argument."""


def filled(prompt: types.Prompt, text: str, given: Mapping[str, str] | None) -> str | None:
    """The text with its argument; None if the argument is missing."""
    about = (given or {}).get("about", "").strip()
    return text.replace("{about}", about) if about or not prompt.arguments else None
