"""The settings of secret fields."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError

from daemon.settings.values import split_list

FIELD = re.compile(r"[a-z][a-z0-9_-]{0,62}")
"""The name of a secret field."""

OWN_FIELDS = frozenset(
    (
        "about", "anchor_id", "authors", "category", "cc", "cid", "columns", "confidence", "count", "date", "encoding",
        "encrypted", "exit_code", "from", "front_matter", "last_said", "ledger", "message_ids", "model", "project", "reference",
        "rows", "rule", "session_id", "sheets", "slot", "speaker", "title", "to", "value",
    )
)  # fmt: skip
"""Fields of metadata that memoryd itself writes, so they cannot be secret."""


def secret_names(text: str) -> str:
    """Accepts names of fields of metadata, separated by commas."""
    for name in split_list(text):
        if not FIELD.fullmatch(name):
            raise PydanticCustomError(
                "secret_fields",
                "names separated by commas, of letters a to z, digits, _ and -, beginning with a letter",
            )
        if name in OWN_FIELDS:
            raise PydanticCustomError(
                "secret_fields", "names of your own: memoryd itself writes and reads that field"
            )
    return text


class SecretFields(BaseModel):
    heading: ClassVar = "Secret fields"

    secret_fields: Annotated[str, AfterValidator(secret_names)] = Field(
        "",
        description="Names of metadata fields, separated by commas, whose values must be encrypted, as in "
        "api_key,access_token. A row with a plain value is refused. Empty: none. docs/secrets.md",
    )
    secrets_key_file: Path | None = Field(
        None,
        description="File with the private keys of secret fields, which nobody else may read. Only the commands of "
        "memoryd secrets read it, the daemon never: keep it on another machine.",
    )
