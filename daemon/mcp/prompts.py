"""The prompts: what a person picks from a client's menu, as the first words of a turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PromptOf:
    """A prompt. `text` is what the client sends for the person, with `{about}` in place of the argument."""

    name: str
    title: str
    description: str
    text: str
    argument: str | None = None

    def filled(self, given: Mapping[str, str] | None) -> str | None:
        """The text with its argument; None where that is missing."""
        if self.argument is None:
            return self.text
        about = (given or {}).get("about", "").strip()
        return self.text.replace("{about}", about) if about else None


PROMPTS = {
    prompt.name: prompt
    for prompt in (
        PromptOf(
            "remembered",
            "What is remembered about ...",
            "Look up what earlier sessions said, did and decided about something.",
            "What do you remember about {about}? Ask the tool recall, in two or three different wordings, before you answer. "
            "Say when each thing was remembered, what contradicts what, and that nothing is remembered where nothing is found.",
            argument="What to look up, in a few words.",
        ),
        PromptOf(
            "hand_over",
            "Remember this session",
            "Keep what later sessions need of this one, before it ends.",
            "Before this session ends, keep what later sessions need. Ask the tool recall what is remembered already. Then "
            "call the tool remember for each thing that is new and cannot be read from the files: what was decided and why, "
            "what was tried and failed, what is still to be done. One fact a call, complete in itself, with names instead of "
            "pronouns; no credentials. Forget what turned out to be wrong. Then tell me in a list what you kept.",
        ),
    )
}
