"""What the doctor makes of roles, rights and logins: who may be memoryd, and who may do more than an end user should.

Promise: pure functions from facts to findings; every finding that is not ok says what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daemon.db.names import Lookalike
from daemon.health.check import Check, Facts, quoted

MOST_NAMED = 5


def check_roles(server: Facts) -> list[Check]:
    """Our two roles, and whether the one that asks may be memoryd."""
    me, missing = server["role"], {"memoryd_service", "memoryd_user"} - set(server["roles"])
    if missing:
        names = " and ".join(sorted(missing))
        advice = "; ".join(f"create role {name} nologin" for name in sorted(missing))
        if not server["has_schema"] and server["creates_roles"]:
            return [
                Check(
                    "roles", "warning", f"There is no role {names} yet.", "memoryd migrate creates the roles."
                )
            ]
        return [
            Check(
                "roles",
                "problem",
                f"There is no role {names}.",
                f"An administrator runs: {advice}, and their grants.",
            )
        ]
    checks = [Check("roles", "ok", f"memoryd_service and memoryd_user exist; {me} works as memoryd_service.")]
    if not server["member"]:
        advice = f"An administrator runs: grant memoryd_service to {quoted(me)}"
        checks = [Check("roles", "problem", f"{me} is not a member of memoryd_service.", advice)]
    owner = server["owner"]
    if owner is not None and not owner["mine"]:
        found = f"Schema memoryd belongs to {owner['name']}, and this is {me}."
        checks.append(Check("owner", "problem", found, f"Give DATABASE_URL the user {owner['name']}."))
    return checks


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
