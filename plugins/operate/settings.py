"""The settings of the HTTP port and of backups."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, Field

from daemon.settings.values import FOLDER_OF_DATABASE, http_address


class Backups(BaseModel):
    heading: ClassVar = "Backups"

    backup_dir: Annotated[Path | None, FOLDER_OF_DATABASE] = Field(
        None,
        description="Folder where the daemon writes a backup of the database at times. Empty: none. docs/backup.md",
    )
    backup_hours: Annotated[float, Field(gt=0, le=8760)] = Field(
        24.0, description="How old the newest backup is when the next one is made."
    )
    backups_kept: Annotated[int, Field(ge=1, le=10_000)] = Field(
        7, description="How many backups the folder keeps. Older ones are deleted."
    )


class Http(BaseModel):
    heading: ClassVar = "Health and metrics"

    http: Annotated[str, AfterValidator(http_address)] | None = Field(
        None,
        description="Port, or IP address and port, at which the daemon answers probes and Prometheus, without a token. A port "
        "alone is one of 127.0.0.1; to be reached from other machines name the address, such as 0.0.0.0:9470. Empty: none. "
        "docs/monitoring.md",
    )
