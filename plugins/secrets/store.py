"""Secret fields in the database: the public key, the number of values of each key, and encrypting all with the newest key.

Promise: no log and no error contains a value. One statement changes one value, only if it is still the value that was read. So
it may end at any time, the next run continues, and two runs may work at once.
"""

from __future__ import annotations

import json
from collections import Counter

import asyncpg

from daemon.db.pool import Database
from daemon.db.settings import WRITE_SETTINGS
from plugins.secrets.keys import (
    MAX_BYTES,
    SUITE_NAME,
    DecryptionError,
    PublicKey,
    SecretKeys,
    base64url,
    from_base64url,
)

KEY = "select public_key from public.secrets_key()"
FIELDS = "select value #>> '{}' from memoryd.settings where key = 'secret_fields'"
COUNT = (
    "select in_column, key_id, count(*) as number from memoryd.secrets_stored() group by 1, 2 order by 1, 2"
)
STORED = "select * from memoryd.secrets_stored() where key_id is distinct from $1"
WRITE = "select memoryd.write_secret($1, $2, $3, $4::jsonb, $5::jsonb)"
REFUSED = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError)


async def public_key(database: Database) -> PublicKey | None:
    """The key that the database gives its clients; None if it has no key."""
    given = await database.fetchval(KEY)
    return None if given is None else PublicKey(from_base64url(given))


async def publish(database: Database, key: PublicKey) -> None:
    """Makes this the key that the database gives its clients."""
    value = {"key_id": key.id, "public_key": base64url(key.raw), "suite": SUITE_NAME}
    await database.execute(WRITE_SETTINGS, ["secrets_key"], [json.dumps(value)])


async def fields_of(database: Database) -> list[str]:
    """The names of the secret fields, as the database has them."""
    return [name for name in (await database.fetchval(FIELDS) or "").split("|") if name]


async def count(database: Database) -> dict[str, dict[str, int]]:
    """For each table and column: how many values each key has encrypted, by its id, and how many are `plain`."""
    found: dict[str, dict[str, int]] = {}
    for row in await database.fetch(COUNT):
        found.setdefault(row["in_column"], {})[row["key_id"] or "plain"] = row["number"]
    return found


async def reencrypt(database: Database, keys: SecretKeys) -> tuple[Counter[str], dict[str, list[str]]]:
    """Encrypts plain values and those of other keys with the newest key. Returns how many of each, and the others by reason."""
    await publish(database, keys.newest)
    done, failed = Counter[str](), dict[str, list[str]]()
    async with database.transaction() as reading:
        async for row in reading.cursor(STORED, keys.newest.id, prefetch=100):
            is_plain, bound = row["key_id"] is None, {"field": row["field"], "user": row["user_id"]}
            try:
                value = json.loads(row["value"])
                secret = (
                    (value if isinstance(value, str) else row["value"]).encode()
                    if is_plain
                    else keys.decrypt(row["value"], **bound)
                )
                if len(secret) > MAX_BYTES:
                    raise DecryptionError(f"It is longer than {MAX_BYTES:,} bytes.")  # noqa: TRY301
                made = json.dumps(keys.newest.encrypt(secret, **bound))
                which = row["in_column"], row["id"], row["path"]
                written = await database.fetchval(WRITE, *which, row["value"], made)
            except (DecryptionError, *REFUSED) as error:
                reason = str(error.args[0])
                failed.setdefault(reason, []).append(f"{row['in_column']} {row['id']}, {row['field']}")
            else:
                done["plain" if is_plain else "older"] += written
    return done, failed
