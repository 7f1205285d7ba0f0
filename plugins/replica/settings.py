"""The settings of the replica, and of Google Drive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, Field

from daemon.settings.values import FOLDER_OF_DATABASE, http_url


class Replica(BaseModel):
    heading: ClassVar = "Replica"

    replica: Annotated[Path | None, FOLDER_OF_DATABASE] = Field(
        None,
        description="Folder with the documents and what is remembered as files, which people read and change: a path, or "
        "gdrive: and the id of a folder in Google Drive. Empty: none. docs/replica.md",
    )
    gdrive_key_file: Path | None = Field(
        None,
        description="Key (JSON) of the service account for the replica, or the drop folder, in Google Drive.",
    )
    gdrive_poll_seconds: Annotated[float, Field(ge=1, le=86_400)] = Field(
        10.0, description="Pause between two questions to Google Drive for changes."
    )
    gdrive_url: Annotated[str, AfterValidator(http_url)] | None = Field(
        None, description="Address of a server that speaks Drive v3. Empty: Google's own."
    )
