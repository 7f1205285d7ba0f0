"""The settings of memoryd in a Supabase project."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError


def _agent_name(text: str) -> str:
    """Passes the name of an agent."""
    if not 1 <= len(text) <= 200 or not text.isprintable() or not text.strip() or text == "_shared":
        raise PydanticCustomError("agent", "the name of an agent, of 1 to 200 characters, and not _shared")
    return text


class Supabase(BaseModel):
    heading: ClassVar = "Supabase"

    app_agent_id: Annotated[str, AfterValidator(_agent_name)] = Field(
        "app", description="agent_id of users' memories that are stored without one. docs/supabase.md"
    )
    metadata_schemas: Literal["off", "warn", "refuse"] = Field(
        "warn",
        description="What happens to a memory whose metadata are not as those of its memory_type. docs/supabase.md",
    )
    broadcast: Literal["private", "public", "off"] = Field(
        "private",
        description="Who may hear memory_updated on Supabase's topic agent-memory: signed-in users, everybody, or nobody. "
        "docs/supabase.md",
    )
    erase_with_account: bool = Field(
        True, description="Whether the memory of an account that is deleted from auth.users is erased."
    )
