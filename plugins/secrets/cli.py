"""memoryd secrets: secret fields of metadata, encrypted with a key that is not in the database.

Promise: a value comes from stdin and goes to stdout, never through the command line. No error and no log contains any of it.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from daemon.cli.common import ended_by_ctrl_c, id_option, settings_or_exit, with_database
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import as_json, number, remark, say, table
from plugins.secrets.settings import SecretFields

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings
    from plugins.secrets.keys import PublicKey, SecretKeys

secrets = typer.Typer(name="secrets", invoke_without_command=True)

SHOWN = 20
"""How many of the rows that were not encrypted are named."""


@secrets.callback()
def show(context: typer.Context, json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List how many values of secret fields each key has encrypted, and how many values are plain.

    MEMORYD_SECRET_FIELDS names the fields. No private key is needed. docs/secrets.md
    """
    if context.invoked_subcommand is not None:
        return

    async def read(_settings: Settings, database: Database) -> dict[str, Any]:
        from plugins.secrets.keys import base64url
        from plugins.secrets.store import count, fields_of, public_key

        key = await public_key(database)
        return {
            "fields": await fields_of(database),
            "key_id": None if key is None else key.id,
            "public_key": None if key is None else base64url(key.raw),
            "values": await count(database),
        }

    found = with_database(read)
    if json:
        as_json(found)
    else:
        _show(found)


@secrets.command("new-key")
def new_key() -> None:
    """Make a key in the file that MEMORYD_SECRETS_KEY_FILE names, and give the database its public half.

    Older keys stay in the file and still decrypt their values, until `memoryd secrets reencrypt` has encrypted these again.
    """
    path = _key_file(settings_or_exit(quiet=True))

    async def make(_settings: Settings, database: Database) -> SecretKeys:
        from plugins.secrets.keys import add_key
        from plugins.secrets.store import fields_of, publish

        await fields_of(database)  # checks the database before a key is made
        try:
            keys = add_key(path)
        except OSError as error:
            raise Failure(f"The key file {path} cannot be written: {error.strerror}.") from None
        await publish(database, keys.newest)
        return keys

    from plugins.secrets.keys import base64url

    keys = with_database(make)
    say(
        f"Key {keys.newest.id} is in {path}, and the database gives its public half: {base64url(keys.newest.raw)}"
    )
    remark(f"Keep a copy of {path} apart from copies of the database. Without this file the values are lost.")
    if len(keys.keys) > 1:
        remark("Values that older keys encrypted stay unchanged until you run: memoryd secrets reencrypt")


@secrets.command()
def encrypt(
    field: str = typer.Argument(..., help="The field of the value."),
    user: UUID | None = id_option(says="The user_id of the row. Left out: the row has none."),
) -> None:
    """Encrypt the value on stdin, without the newline at its end; print the JSON for the metadata.

    The key is the newest of MEMORYD_SECRETS_KEY_FILE; without that setting it is the public key in the database.
    """
    import json

    from plugins.secrets.keys import MAX_BYTES

    field = _field(field)
    value = _stdin(MAX_BYTES)
    settings = settings_or_exit(quiet=True)
    if settings.section(SecretFields).secrets_key_file is not None:
        with sentences():
            key = _keys(settings).newest
    else:

        async def read(_settings: Settings, database: Database) -> PublicKey:
            from plugins.secrets.store import public_key

            found = await public_key(database)
            if found is None:
                raise Failure("The database has no public key. To make one: memoryd secrets new-key")
            return found

        key = with_database(read)
    say(json.dumps(key.encrypt(value, field=field, user=user)))


@secrets.command()
def decrypt(
    field: str = typer.Argument(..., help="The field of the value."),
    user: UUID | None = id_option(says="The user_id of the row. Left out: the row has none."),
) -> None:
    """Decrypt the JSON object on stdin, and print the value. It needs MEMORYD_SECRETS_KEY_FILE, but no database."""
    field = _field(field)
    given = _stdin(2_000_000)
    settings = settings_or_exit(quiet=True)
    with sentences():
        secret = _keys(settings).decrypt(given.decode(), field=field, user=user)
    sys.stdout.buffer.write(secret + (b"\n" if sys.stdout.isatty() else b""))
    sys.stdout.buffer.flush()


@secrets.command()
def reencrypt(json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """Encrypt with the newest key plain values of secret fields, and values that older keys encrypted.

    It works in batches, so you may end it and run it again at any time. Values that cannot be decrypted stay, and are named.
    """

    async def work(settings: Settings, database: Database) -> tuple[Counter[str], dict[str, list[str]]]:
        from plugins.secrets.store import reencrypt

        return await reencrypt(database, _keys(settings))

    done, failed = with_database(work)
    if json:
        found = {name: sorted(rows) for name, rows in failed.items()}
        as_json({"from_plain": done["plain"], "from_older_keys": done["older"], "failed": found})
    else:
        say(
            f"Encrypted with the newest key: {number(done['plain'], 'plain value')}, "
            f"{number(done['older'], 'value')} of older keys."
        )
        for why, rows in failed.items():
            remark(f"Left as they were: {number(len(rows), 'value')}. {why}")
            for row in sorted(rows)[:SHOWN]:
                remark(f"  {row}")
    if failed:
        raise typer.Exit(1)


def _key_file(settings: Settings) -> Path:
    file = settings.section(SecretFields).secrets_key_file
    if file is None:
        with sentences():
            raise Failure(
                "Set MEMORYD_SECRETS_KEY_FILE to a file for the private keys, apart from copies of the database."
            )
    path = file.expanduser()
    if settings.database_url is None and path.resolve().is_relative_to(
        settings.data_dir.expanduser().resolve()
    ):
        with sentences():
            raise Failure(
                f"MEMORYD_SECRETS_KEY_FILE is in the data folder {settings.data_dir}: a copy of that folder would contain "
                "the key. Name a file elsewhere."
            )
    return path


def _keys(settings: Settings) -> SecretKeys:
    from plugins.secrets.keys import read_keys

    return read_keys(_key_file(settings))


def _field(name: str) -> str:
    from plugins.secrets.settings import FIELD

    field = name.lower()
    if not FIELD.fullmatch(field):
        with sentences():
            raise Misuse(
                "A secret field has a name of letters a to z, digits, _ and -, and begins with a letter."
            )
    return field


def _stdin(maximum: int) -> bytes:
    """The value on stdin, in UTF-8, without the newline at its end."""
    with sentences():
        with ended_by_ctrl_c():
            given = sys.stdin.buffer.read(maximum + 3)
        value = given.removesuffix(b"\n").removesuffix(b"\r")
        if not value:
            raise Failure(
                "There is nothing on stdin. The value is read from stdin, so that no list of processes shows it."
            )
        if len(value) > maximum:
            raise Failure(f"The value on stdin is longer than {maximum:,} bytes.")
        try:
            value.decode()
        except UnicodeDecodeError:
            raise Failure(
                "The value on stdin is not in UTF-8. Encode it first, for example with base64."
            ) from None
    return value


def _show(found: dict[str, Any]) -> None:
    say(f"Secret fields: {', '.join(found['fields']) or 'none (MEMORYD_SECRET_FIELDS is empty)'}.")
    if found["key_id"] is None:
        say("There is no public key. To make one: memoryd secrets new-key")
    else:
        say(f"Public key {found['key_id']}: {found['public_key']}")
    rows = [
        [f"{amount:,}", "not encrypted" if key == "plain" else key, name]
        for name, counts in found["values"].items()
        for key, amount in counts.items()
    ]
    if rows:
        table(["values>", "key", "column"], rows)
    else:
        say("No row has a value of a secret field.")
    if any(counts.keys() - {found["key_id"]} for counts in found["values"].values()):
        remark("To encrypt plain values and those of older keys: memoryd secrets reencrypt")
