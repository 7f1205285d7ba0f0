"""The doctor's checks of roles, rights and logins: who may act as memoryd, and who may do more than an end user should.

Promise: pure functions from facts to findings; every finding that is not ok says what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from daemon.db.administrator import MissingRights
from daemon.db.foreign import Lookalike
from daemon.plugins import Check

Facts: TypeAlias = Mapping[str, Any]
"""The answer to doctor.READ_SERVER or doctor.READ_MEMORY."""
BELOW = "An administrator runs what stands under administrator, below."
"""For what is part of the one block (daemon/db/administrator.py)."""
ROLES = ("memoryd_service", "memoryd_user", "memoryd_admin")

MOST_NAMED = 5


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def check_roles(server: Facts) -> list[Check]:
    """Our roles, and whether the one that asks may be memoryd."""
    me, missing = server["role"], [name for name in ROLES if name not in server["roles"]]
    if missing:
        names = " and ".join(missing)
        if not server["has_schema"] and server["creates_roles"]:
            return [
                Check(
                    "roles", "warning", f"There is no role {names} yet.", "memoryd migrate creates the roles."
                )
            ]
        advice = "Run: memoryd migrate --repair" if server["creates_roles"] else BELOW
        return [Check("roles", "problem", f"There is no role {names}.", advice)]
    checks = [Check("roles", "ok", f"memoryd's three roles exist; {me} works as memoryd_service.")]
    owner = server["owner"]
    if not server["member"]:
        advice = f"An administrator runs: grant memoryd_service to {quoted(me)}"
        if owner is None or owner["mine"]:
            advice = BELOW if server["lacks"] else "Run: memoryd migrate"
        checks = [Check("roles", "problem", f"{me} is not a member of memoryd_service.", advice)]
    if owner is not None and not owner["mine"]:
        found = f"Schema memoryd belongs to {owner['name']}, and this is {me}."
        checks.append(Check("owner", "problem", found, f"Give DATABASE_URL the user {owner['name']}."))
    return checks


def check_administrator(server: Facts, lacking: MissingRights) -> Check:
    """Rights that only an administrator gives: the same block as `memoryd migrate` names."""
    if not lacking:
        return Check("administrator", "ok", "This role lacks nothing that an administrator gives.")
    found = f"{server['role']} lacks rights for memory requests of users, or for memoryd web."
    if lacking.needed:
        found = f"{server['role']} lacks rights that memoryd needs."
    advice = f"In database {server['database']} an administrator runs once:\n{lacking.block}"
    return Check("administrator", "problem", found, advice)


def check_row_security(server: Facts) -> Check:
    """Row-level security on every table of ours."""
    if not server["open_tables"]:
        return Check("row security", "ok", "Enabled and forced on every table.")
    advice = "; ".join(
        f"alter table public.{name} enable row level security, force row level security"
        for name in server["open_tables"]
    )
    return Check(
        "row security", "problem", f"Not forced on: {', '.join(server['open_tables'])}.", f"Run: {advice}"
    )


def check_schemas(server: Facts, lookalikes: Sequence[Lookalike]) -> Check:
    """Whether end users may put functions before ours, in a schema that the owner's functions look into, or others have."""
    if lookalikes:
        named = ", ".join(one.name for one in lookalikes[:MOST_NAMED])
        first = f"{lookalikes[0].kind} {lookalikes[0].name}"
        return Check(
            "schemas",
            "problem",
            f"memoryd's statements may call what other roles have made ({len(lookalikes)}) for Postgres' own: {named}.",
            f"See what it does. Then drop it, or move it into a schema of its own: alter {first} set schema ...",
        )
    if not server["open_schemas"]:
        return Check("schemas", "ok", "End users create nothing where memoryd's functions look.")
    names = ", ".join(quoted(name) for name in server["open_schemas"])
    return Check(
        "schemas",
        "problem",
        f"End users may create objects in schema {names}, and so put theirs before memoryd's.",
        f"Run: revoke create on schema {names} from public",
    )


def check_rights(server: Facts) -> Check:
    """Whether others than services may write, and so lock or empty, whole tables: policies stop neither."""
    wide = server["wide_rights"]
    if not wide:
        return Check("table rights", "ok", "Only services may lock, write or empty whole tables.")
    rights = "; ".join(f"{one['role']}: {', '.join(one['tables'])}" for one in wide)
    advice = "; ".join(
        f"revoke insert, update, delete, truncate on {', '.join(one['tables'])} from {one['role']}"
        for one in wide
    )
    ours = any(one["role"] == "memoryd_user" for one in wide)
    again = " (then its rights by column again, as the migrations grant them)" if ours else ""
    found = f"These may lock and write whole tables, past row-level security: {rights}."
    return Check("table rights", "problem", found, f"Run: {advice}{again}")


def check_joined(left: Sequence[Mapping[str, str]]) -> Check:
    """Whether memoryd follows what a Supabase project has: its accounts, its publication, Broadcast."""
    if not left:
        return Check(
            "supabase", "ok", "Accounts, publication and Broadcast are joined, where they are there."
        )
    parts = ", ".join(sorted({one["part"] for one in left}))
    advice = "; ".join(one["statement"] for one in left)
    return Check(
        "supabase", "warning", f"Not joined: {parts}.", f"memoryd migrate, or as a role that may: {advice}"
    )


def check_logins(logins: Sequence[str]) -> Check:
    """Whether a login is an end user, and can choose which one by a setting."""
    if not logins:
        return Check("logins", "ok", "No login is an end user of its own choosing.")
    names = ", ".join(quoted(name) for name in logins)
    advice = (
        "Claims are a setting that any login may set. Run: revoke memoryd_user from <login>, and let a gateway such "
        "as PostgREST set the claims; or say who it is: "
        "insert into memoryd.logins (login, user_id) values ('<login>', '<user_id>')"
    )
    return Check("logins", "problem", f"These logins are whichever user they say they are: {names}.", advice)


def check_shared(fields: Mapping[str, int]) -> Check:
    """Whether rows are shared with more readers than their metadata say: by field, how many."""
    if not fields:
        return Check("shared rows", "ok", "Metadata of shared rows name no limit that has no effect.")
    found = ", ".join(f"metadata.{field} of {rows}" for field, rows in fields.items())
    advice = (
        "Set access_level, visibility_tags and metadata.project of these rows to what the fields say, and take the fields out "
        "(docs/documents.md). The rows: select * from memoryd.shared_past_limits()"
    )
    return Check("shared rows", "problem", f"Shared rows name limits that keep nobody out: {found}.", advice)
