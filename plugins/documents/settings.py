"""The settings of the drop folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BaseModel, Field

from daemon.settings.values import FOLDER_OF_DATABASE


class Documents(BaseModel):
    heading: ClassVar = "Documents"

    drop_folder: Annotated[Path | None, FOLDER_OF_DATABASE] = Field(
        None,
        description="Drop folder: files that a person puts there become documents, and are moved to taken/ in it. A path, or "
        "gdrive: and the id of a folder in Google Drive. Empty: none. docs/documents.md",
    )
    drop_keep_days: Annotated[float, Field(gt=0, le=36500)] | None = Field(
        None,
        description="Days after which files in taken/ and rejected/ of the drop folder are deleted. Empty: never, since "
        "a dropped file may be the only copy. Not in Google Drive.",
    )
