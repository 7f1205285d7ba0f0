"""memoryd backup: the whole database as one file; with --verify the proof that such a file can be restored."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from daemon.cli.common import for_each_database, postgres, settings_or_exit
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import megabytes, number, remark, say
from plugins.operate.cli.restore import checked, restored

if TYPE_CHECKING:
    from daemon.settings import Settings
    from plugins.operate.backup.archive import Manifest


def backup(
    path: Path = typer.Argument(
        ..., metavar="FILE|DIRECTORY", help="File to write; in a directory, a new file."
    ),
    verify: bool = typer.Option(
        False,
        "--verify",
        help="Write nothing: restore FILE into a temporary Postgres, compare, check the trail, and recall something.",
    ),
    with_keys: bool = typer.Option(
        False,
        "--with-keys",
        help="Put the private keys into the file, too: of the trail, and of secret fields.",
    ),
) -> None:
    """Write the whole database to a file, as of one moment, while everything runs. `memoryd restore` brings it back.

    The file has the schemas public and memoryd, with tables in public that are not memoryd's. Keys are named, not included.
    """
    settings = settings_or_exit(quiet=True)
    with sentences():
        if verify:
            if with_keys:
                raise Misuse("--with-keys is for writing a backup: leave --verify away.")
            _verify(settings, path)
            return
        if settings.database_urls is not None and not path.is_dir():
            raise Misuse(f"{path} is not a directory: each of several databases gets a file in it.")
    for_each_database(settings, lambda one: _write(one, path, with_keys=with_keys))


def _write(settings: Settings, path: Path, *, with_keys: bool) -> None:
    from plugins.operate.backup.dump import make_backup
    from plugins.operate.backup.folder import name_in
    from plugins.operate.backup.keys import keys_of

    if settings.database is not None and path.is_dir():
        path = path / settings.database
        path.mkdir(exist_ok=True)
    target = name_in(path) if path.is_dir() else path
    keys = keys_of(settings)
    with postgres(settings, existing=True) as (url, _server):
        try:
            manifest = asyncio.run(make_backup(url, target, keys=keys, with_keys=with_keys))
        except OSError as error:
            raise Failure(f"{target} cannot be written: {error.strerror or error}.") from None
    say(f"{target}: {_described(manifest)}")
    if manifest.keys_left_out:
        remark(
            "Private keys are not in it, keep them elsewhere (or use --with-keys): "
            + ", ".join(str(keys[name]) for name in manifest.keys_left_out)
        )
    remark(f"A backup counts once it was restored: memoryd backup --verify {target}")


def _described(manifest: Manifest) -> str:
    rows = manifest.contents.rows
    memories = number(rows.get("public.agent_memory", 0), "memory", "memories")
    return (
        f"{memories}, {number(sum(rows.values()), 'row')} in {len(rows)} tables, {megabytes(manifest.bytes)}"
    )


def _verify(settings: Settings, path: Path) -> None:
    from plugins.embedded.server import EmbeddedPostgres
    from plugins.operate.backup.prove import make_account, prove

    manifest = checked(settings, path)
    with tempfile.TemporaryDirectory(prefix="memoryd-verify-") as folder:
        server = EmbeddedPostgres(Path(folder))
        try:
            server.start()
            url = asyncio.run(make_account(server.socket_url))
            restored(settings, url, path, manifest)
            wrong = asyncio.run(prove(url))
        finally:
            server.stop("immediate")
    if wrong:
        raise Failure(f"{path} can be restored, but: {'; '.join(wrong)}")
    say(f"{path} can be restored: {_described(manifest)}. The trail is whole, and recall answers.")
