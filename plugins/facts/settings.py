"""The setting that says what is read in messages."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, Field

from daemon.settings import Settings


def _not_by_rules(text: object) -> object:
    """'rules' was allowed once, and is as if nothing was said."""
    return None if isinstance(text, str) and text.strip().lower() == "rules" else text


class Facts(BaseModel):
    heading: ClassVar = "Facts"
    outdated: ClassVar = {
        "MEMORYD_FACTS": (
            "rules",
            "facts by rules are gone: take the line out, and set MEMORYD_LANGUAGE_MODEL for facts by a model (docs/facts.md)",
        )
    }

    facts: Annotated[Literal["model", "off"] | None, BeforeValidator(_not_by_rules)] = Field(
        None,
        description="model: the language model reads what users say and remembers facts of it. off: nothing is read in "
        "messages. Empty: model where there is a MEMORYD_LANGUAGE_MODEL. docs/facts.md",
    )


def read_in_messages(settings: Settings) -> Literal["model", "off"]:
    """What is read in messages: facts and names, or nothing."""
    is_off = settings.section(Facts).facts == "off" or settings.language_model is None
    return "off" if is_off else "model"


def check_facts(settings: Settings) -> None:
    """Raises ValueError where the settings want facts from a language model, and name none."""
    if settings.section(Facts).facts == "model" and not settings.language_model:
        raise ValueError(
            "MEMORYD_FACTS is 'model', and no language model is set: "
            "set MEMORYD_LANGUAGE_MODEL to openai/<model>, or take MEMORYD_FACTS out"
        )
