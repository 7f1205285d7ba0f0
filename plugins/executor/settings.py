"""The settings of the built-in executor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BaseModel, Field


class Executor(BaseModel):
    heading: ClassVar = "Built-in executor"

    executor_command: str | None = Field(
        None,
        description="Program that runs commands. It reads context and message from stdin. Empty: no built-in executor.",
    )
    executor_timeout_seconds: Annotated[float, Field(gt=0, le=31_536_000)] = Field(
        600.0, description="Time limit of one command."
    )
    executor_parallel: Annotated[int, Field(ge=1, le=1000)] = Field(
        2, description="Maximum number of commands that run at once for one agent."
    )
    executor_total: Annotated[int, Field(ge=1, le=10_000)] = Field(
        16, description="Maximum number of commands that run at once in this daemon, of all agents."
    )
    executor_user: str | None = Field(
        None,
        description="System user that commands run as; needs root. Empty: the daemon's user, which then must not be root.",
    )
    executor_dir: Path | None = Field(
        None,
        description="Folder where commands run. Empty: a private one for each command, removed afterwards.",
    )
    executor_environment: str = Field(
        "", description="Names of variables that commands see beside the usual ones, separated by commas."
    )
