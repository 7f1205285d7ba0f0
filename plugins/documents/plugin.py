"""The plugin documents: files become documents, by memoryd ingest and by the drop folder; documents are cut into chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from daemon.part import Part
from daemon.plugins import Command, Core, Plugin, imported
from daemon.queue.topic import Topic
from daemon.settings import Settings
from plugins.documents.settings import Documents
from plugins.replica.settings import Replica

if TYPE_CHECKING:
    from plugins.documents.drive_drop import DriveDrop
    from plugins.documents.drop import DropFolder

DROP_SETTLE_SECONDS, DROP_SCAN_SECONDS = 2.0, 1.0
"""A file is taken after this time without a change; and the time between two scans."""


class DocumentFiles(Plugin):
    name = "documents"
    needs = ("files", "replica")
    settings = (Documents,)
    commands = {"ingest": Command("plugins.documents.cli:ingest", "Remember and ask")}

    def topics(self, core: Core) -> Iterable[Topic]:
        """Cutting into chunks; and saying where these stand, by the language model."""
        from plugins.documents.document import DocumentHandler
        from plugins.documents.situate import SituateHandler

        reader, thinker = core.database, core.thinker
        # Few at once: a document may be as long as a book, and a batch is one transaction.
        handler = DocumentHandler(reader=reader, situate=thinker is not None)
        yield Topic("document", handler, batch=16, follow_ups=("index", "situate"))
        # One document at a time: a batch waits for a language model, and none of its effects is written before the last reply.
        yield Topic("situate", SituateHandler(reader=reader, thinker=thinker), batch=1, follow_ups=("index",))

    def parts(self, core: Core) -> Iterable[Part]:
        yield Part("drop folder", lambda: build_drop_folder(core))

    def prepare(self, settings: Settings) -> None:
        """Checks that what reads the drop folder is installed, and that a folder in Google Drive has an account."""
        if settings.section(Documents).drop_folder is not None:
            imported("plugins.documents.parsing.parser:ChildParser")
        if drive_id(settings) is not None:
            imported("plugins.replica.location:open_drive")(settings)

    def switches(self, settings: Settings) -> Mapping[str, object]:
        """Whether there is a drop folder, and a model that says where chunks stand."""
        return {
            "situate": settings.language_model is not None,
            "drop": settings.section(Documents).drop_folder is not None,
        }


def drive_id(settings: Settings) -> str | None:
    """The id of a drop folder in Google Drive; None for a local folder. Raises ValueError with what to do."""
    from plugins.replica.location import drive_id_of

    folder = settings.section(Documents).drop_folder
    return None if folder is None else drive_id_of(folder, name="MEMORYD_DROP_FOLDER")


def build_drop_folder(core: Core) -> DropFolder | DriveDrop | None:
    """What takes files from the drop folder; None if the settings name no folder. Raises ValueError with what to do."""
    own, replica = core.settings.section(Documents), core.settings.section(Replica)
    if own.drop_folder is None:
        return None
    from plugins.documents.drive_drop import DriveDrop
    from plugins.documents.drive_files import DriveFiles
    from plugins.documents.drop import DropFolder
    from plugins.documents.parsing.parser import ChildParser
    from plugins.replica.location import drive_id_of, open_drive

    shared: dict[str, Any] = {
        "database": core.database,
        "parser": ChildParser(),
        "settle_seconds": DROP_SETTLE_SECONDS,
        "logger": core.logger,
    }
    if (folder_id := drive_id(core.settings)) is not None:
        left_out = None if replica.replica is None else drive_id_of(replica.replica)
        files = DriveFiles(open_drive(core.settings)[0], folder_id, leave_out=left_out)
        return DriveDrop(files, scan_seconds=replica.gdrive_poll_seconds, **shared)
    return DropFolder(own.drop_folder, scan_seconds=DROP_SCAN_SECONDS, keep_days=own.drop_keep_days, **shared)


PLUGIN = DocumentFiles()
