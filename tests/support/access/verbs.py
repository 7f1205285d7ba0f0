"""Statements that try every verb on a table or view: all ways to read, or write to, rows of others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID, uuid4

from tests.support.access.isolation import MARKS, Row

DDL = (
    "alter table {name} disable row level security",
    "alter table {name} no force row level security",
    "alter table {name} owner to current_user",
    "create policy mine on {name} using (true) with check (true)",
    "create rule mine as on insert to {name} do also notify mine",
    "create trigger mine before delete on {name} for each row execute function suppress_redundant_updates_trigger()",
    "create index on {name} ((true))",
    "create table pg_temp.mine (r uuid references {name})",
    "create table pg_temp.mine () inherits ({name})",
    "truncate {name}",
    "truncate {name} cascade",
    "drop table {name} cascade",
    "drop view {name} cascade",
    "refresh materialized view {name}",
    "cluster {name}",
)
"""Only the owner may use these."""


def writes(
    name: str,
    *,
    columns: Sequence[str],
    allowed: dict[str, set[str]],
    key: str,
    row: Row,
    users: Sequence[UUID | None],
) -> Iterator[str]:
    """Statements that write; `row` is another user's, `allowed` the columns that the writer may select, insert, update."""
    theirs = _literal(row[key])
    for column in columns:
        yield f"update {name} set {column} = {column}"
        yield f"update {name} set {column} = {column} where {key} = {theirs}"
    updatable = [c for c in columns if c in allowed["update"]]
    if updatable:
        yield f"update {name} set {', '.join(f'{c} = {c}' for c in updatable)} returning {key}::text, {updatable[0]}::text"
    if "user_id" in columns:
        yield from (f"update {name} set user_id = {_literal(user)}" for user in users)
    yield f"delete from {name}"
    yield f"delete from {name} where {key} = {theirs} returning {key}::text"
    yield f"with gone as (delete from {name} returning {key}) select {key}::text from gone"
    for user in users:
        for given in (_but(row, key=key, user=user), _but(row, key=key, user=user, into_own=True)):
            for some in {tuple(columns), tuple(c for c in columns if c in allowed["insert"])}:
                yield from _inserts(name, some, updatable, key=key, given=given, theirs=row[key])


def _inserts(
    name: str,
    columns: Sequence[str],
    updatable: Sequence[str],
    *,
    key: str,
    given: dict[str, Any],
    theirs: object,
) -> Iterator[str]:
    if not columns:
        return
    listed = ", ".join(columns)
    over = ", ".join(f"{c} = excluded.{c}" for c in updatable) or f"{key} = excluded.{key}"
    for row in (given, given | {key: theirs}):
        source = f"select {listed} from jsonb_populate_record(null::{name}, {_literal(json.dumps(row))})"
        insert = f"insert into {name} ({listed}) {source}"
        yield insert
        yield f"{insert} returning {key}::text"
        yield f"{insert} on conflict ({key}) do update set {over} returning {key}::text"
        yield f"{insert} on conflict do nothing"
        merge = (
            f"merge into {name} t using ({source}) s on t.{key}::text = {_literal(theirs)} when matched then"
        )
        yield f"{merge} delete"
        yield f"{merge} update set {over.replace('excluded.', 's.')}"
        if key in columns:
            values = ", ".join(f"s.{c}" for c in columns)
            yield f"{merge} do nothing when not matched then insert ({listed}) values ({values})"


def _but(row: Row, *, key: str, user: UUID | None, into_own: bool = False) -> dict[str, Any]:
    """The row as another, of this user, with words of the writer's own."""
    text = json.dumps(dict(row))
    for mark in MARKS.values():
        text = text.replace(mark, "planted")
    made: dict[str, Any] = json.loads(text)
    if "user_id" in made and key != "user_id":
        made["user_id"] = None if user is None else str(user)
    if key == "user_id":
        made[key] = None if user is None else str(user)
    else:
        made[key] = str(uuid4())
    if into_own:
        # Beside what is there, in a session or document of the writer's own.
        made |= {name: 77 for name in ("message_index", "chunk_index") if name in made}
    return made


def _literal(value: object) -> str:
    return "null" if value is None else "'" + str(value).replace("'", "''") + "'"
