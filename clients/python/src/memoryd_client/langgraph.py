"""A store for LangGraph: `MemorydStore` keeps the items of a BaseStore as memories with keys.

Promise: a batch is one transaction, of one statement for all that it reads by key, one for its searches, and one each for what
it writes and deletes; reads come before writes, and the last put of a key counts. An item that was put is found at once, and
a search ranks all items under its prefix, up to 5,000. Installed with the extra `langgraph`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import UUID

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
    validate_op_namespace,
)

from memoryd_client import _values as values
from memoryd_client import sync
from memoryd_client._gathering import Gathering
from memoryd_client._identity import Rights
from memoryd_client._keyed import DROP, MINE, THERE, KeyedAdapter, put

if TYPE_CHECKING:
    from asyncpg import Record

    from memoryd_client._connections import Connection

Requests = tuple[UUID | None, ...]
"""Of each search the request with which a daemon embeds what it asks."""
ROOT = "langgraph/"
NOT_IN_A_LABEL = re.compile(r"[%/\x00-\x1f\x7f]")

GET = f"""
select m.key, m.id, m.metadata, m.created_at, m.updated_at
from agent_memory m where {MINE} and {THERE} and m.key = any($3::text[])
"""  # noqa: S608 - constants
SEARCH = """
select o.nth, a.answer ->> 'request' as request, s.*
from unnest($3::text[], $4::text[], $5::text[], $6::integer[], $7::integer[], $8::uuid[]) with ordinality
     as o(prefix, query, filter, count, start, request, nth)
cross join lateral (select ask_memory('keys', o.query, $1, $2, jsonb_build_object(
    'prefix', o.prefix, 'filter', o.filter::jsonb, 'match_count', o.count, 'match_offset', o.start), o.request)
    as answer offset 0) a
left join lateral rows from (jsonb_to_recordset(a.answer -> 'result') as (
    key text, id uuid, metadata jsonb, created_at timestamptz, updated_at timestamptz, score double precision))
    with ordinality as s(key, id, metadata, created_at, updated_at, score, place) on true
order by o.nth, s.place
"""
REFRESH = """
update agent_memory m
set expires_at = now() + make_interval(secs => 60 * (m.metadata ->> 'ttl')::double precision)
where m.id in (select r.id from agent_memory r where r.id = any($1::uuid[]) order by r.id for no key update)
"""
LIST = f"""
select distinct n.labels[:coalesce($5, 10000)] as labels
from (select trim_array(string_to_array(substr(m.key, {len(ROOT) + 1}), '/'), 1) as labels
      from agent_memory m
      where {MINE} and {THERE} and m.key >= $3 and m.key < $3 || chr(1114111)) n
where true %s
order by labels limit $4 offset $6
"""  # noqa: S608 - constants


class MemorydStore(KeyedAdapter, BaseStore):
    """Items of LangGraph, which an agent, or with `user` an end user of an agent, keeps as memories.

    - `database`: a memoryd_client.sync.Database, or a URL; then `close()` (or `with`, `async with`) closes the connections.
      Calls may come from any thread and event loop.
    - `agent`, `user`, `rights`: as of memoryd_client.Memory.
    - `fields`: which parts of a value are found by a search with a query, as paths ("text", "author.name", "tags[*]"); None:
      all that it has. A put may say otherwise with `index`.
    - `ttl`: LangGraph's TTLConfig. What has expired is never read, and memoryd's daemon deletes it.
    """

    supports_ttl = True

    def __init__(
        self,
        database: sync.Database | str | None = None,
        *,
        agent: str,
        user: UUID | str | None = None,
        rights: Rights | None = None,
        fields: Sequence[str] | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        super().__init__(database, agent, user, rights)
        self._fields = fields
        self.ttl_config = ttl
        self._gathering = Gathering(self._transact)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of these, in their order. Raises MemorydError, and InvalidNamespaceError."""
        return sync._LOOP.run(self._gathering.run(Batch(ops, self._fields)))  # noqa: SLF001

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of these, in their order. Raises MemorydError, and InvalidNamespaceError."""
        return await sync._LOOP.wait(self._gathering.run(Batch(ops, self._fields)))  # noqa: SLF001

    async def _transact(self, batch: Batch) -> list[Result]:
        async def once(asked: Requests) -> list[Result] | Requests:
            return await self._database.read(
                self._who, lambda c: batch.run(c, self._whose, asked), payload=batch.payload
            )

        done = await once(())
        if isinstance(done, tuple):
            done = await once(done)
        assert isinstance(done, list)
        return done


class Batch:
    """Operations, checked, by kind."""

    def __init__(self, ops: Iterable[Op], fields: Sequence[str] | None) -> None:
        self._ops = list(ops)
        self._puts: dict[str, tuple[str, str, str, float | None] | None] = {}
        for op in self._ops:
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                key = key_of(op.namespace, op.key)
                self._puts.pop(key, None)  # so that the order of the dict is that of the last puts
                self._puts[key] = None if op.value is None else _row(key, op, fields)
        self._gets = {n: key_of(op.namespace, op.key) for n, op in self._of(GetOp)}
        self._searches = [(n, _search(op)) for n, op in self._of(SearchOp)]
        self._lists = [(n, _listing(op)) for n, op in self._of(ListNamespacesOp)]
        self.payload = [text for row in self._puts.values() if row for text in row[:3]]

    def __len__(self) -> int:
        return len(self._ops)

    def followed_by(self, other: Batch) -> Batch:
        both, after = Batch((), None), len(self._ops)
        both._ops = self._ops + other._ops
        both._puts = {k: v for k, v in self._puts.items() if k not in other._puts} | other._puts
        both._gets = self._gets | {after + n: key for n, key in other._gets.items()}
        both._searches = self._searches + [(after + n, call) for n, call in other._searches]
        both._lists = self._lists + [(after + n, call) for n, call in other._lists]
        both.payload = self.payload + other.payload
        return both

    def _of(self, kind: type[Any]) -> list[tuple[int, Any]]:
        return [(n, op) for n, op in enumerate(self._ops) if isinstance(op, kind)]

    async def run(
        self, connection: Connection, whose: tuple[object, ...], asked: Requests
    ) -> list[Result] | Requests:
        """Reads, then writes, in a transaction that has begun.

        Where a daemon has to embed what is searched for, nothing is written, and the requests are returned to be `asked` with
        in the next transaction.
        """
        results = await self._read(connection, whose, asked)
        if isinstance(results, tuple):
            return results
        await put(connection, whose, [row for row in self._puts.values() if row])
        if gone := [key for key, row in self._puts.items() if row is None]:
            await connection.execute(DROP, *whose, gone)
        return results

    async def _read(
        self, connection: Connection, whose: tuple[object, ...], asked: Requests
    ) -> list[Result] | Requests:
        results: list[Any] = [None] * len(self._ops)
        refreshed: set[UUID] = set()
        if self._searches:
            for n, _ in self._searches:
                results[n] = []
            columns = list(map(list, zip(*(call for _, call in self._searches), strict=True)))
            requests: list[UUID | None] = [None] * len(self._searches)
            for row in await connection.fetch(SEARCH, *whose, *columns, list(asked) or requests):
                if row["request"] is not None:
                    requests[row["nth"] - 1] = UUID(row["request"])
                elif row["key"] is not None:
                    n = self._searches[row["nth"] - 1][0]
                    results[n].append(SearchItem(**_fields_of(row), score=row["score"]))
                    self._refreshes(refreshed, n, row)
            if any(requests):
                return tuple(requests)
        await self._get(connection, whose, results, refreshed)
        await self._list(connection, whose, results)
        if refreshed:
            await connection.execute(REFRESH, list(refreshed))
        return results

    async def _get(
        self, connection: Connection, whose: tuple[object, ...], results: list[Any], refreshed: set[UUID]
    ) -> None:
        if self._gets:
            rows = await connection.fetch(GET, *whose, list(set(self._gets.values())))
            found = {row["key"]: row for row in rows}
            for n, key in self._gets.items():
                if row := found.get(key):
                    results[n] = Item(**_fields_of(row))
                    self._refreshes(refreshed, n, row)

    async def _list(self, connection: Connection, whose: tuple[object, ...], results: list[Any]) -> None:
        listed: dict[tuple[str, tuple[object, ...]], list[Any]] = {}
        for n, call in self._lists:
            if call not in listed:
                rows = await connection.fetch(call[0], *whose, *call[1])
                listed[call] = [tuple(map(unquote, row["labels"])) for row in rows]
            results[n] = list(listed[call])

    def _refreshes(self, refreshed: set[UUID], n: int, row: Record) -> None:
        if getattr(self._ops[n], "refresh_ttl", False) and "ttl" in json.loads(row["metadata"]):
            refreshed.add(row["id"])


def key_of(namespace: Sequence[str], key: str) -> str:
    """The key of an item's memory: its labels and its own key, with / between them."""
    return prefix_of(namespace) + _escaped("An item's key", key)


def prefix_of(namespace: Sequence[str]) -> str:
    """What the keys of all items in a namespace, and below it, begin with."""
    return ROOT + "".join(_escaped("A label of a namespace", label) + "/" for label in namespace)


def _escaped(name: str, text: str) -> str:
    return NOT_IN_A_LABEL.sub(lambda found: f"%{ord(found[0]):02X}", values.plain(name, text, blank=True))


def _fields_of(row: Record) -> dict[str, Any]:
    *labels, key = map(unquote, row["key"][len(ROOT) :].split("/"))
    return {
        "namespace": tuple(labels),
        "key": key,
        "value": json.loads(row["metadata"])["value"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
    }


def _row(key: str, op: PutOp, fields: Sequence[str] | None) -> tuple[str, str, str, float | None]:
    metadata: dict[str, Any] = {"value": values.mapping("value", op.value)}
    if op.ttl is not None:
        metadata["ttl"] = values.seconds("ttl", op.ttl, 0, 52_560_000, "minutes")
    text = "" if op.index is False else _text(metadata["value"], fields if op.index is None else op.index)
    if values.is_blank(text):
        metadata["index"] = False
        text = " ".join(op.namespace) + " " + op.key
    return (
        key,
        "-" if values.is_blank(text) else text,
        values.in_json("value", metadata),
        None if op.ttl is None else metadata["ttl"] * 60,
    )


def _text(value: Mapping[str, Any], fields: Sequence[str] | None) -> str:
    """What of a value is found: the texts at these paths, or all that it has, by name."""
    if fields is None:
        leaves = list(_leaves("", value))
        return leaves[0][1] if len(leaves) == 1 else "\n".join(f"{name}: {text}" for name, text in leaves)
    return "\n".join(text for path in fields for text in get_text_at_path(value, path))


def _leaves(name: str, value: object) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{name} {key}".strip(), inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _leaves(name, inner)
    elif value is not None and str(value).strip():
        yield name, str(value)


def _search(op: SearchOp) -> tuple[str, str | None, str, int, int]:
    return (
        prefix_of(op.namespace_prefix),
        None if op.query is None else values.plain("query", op.query, blank=True),
        values.in_json("filter", {"value": dict(op.filter)} if op.filter else {}),
        values.number("limit", op.limit, 0),
        values.number("offset", op.offset, 0),
    )


def _listing(op: ListNamespacesOp) -> tuple[str, tuple[object, ...]]:
    """A query, and its arguments but the first two. Labels that are named first limit the range of keys that is read."""
    conditions, prefix = "", ""
    arguments: list[object] = [op.limit, op.max_depth, op.offset]
    for condition in op.match_conditions or ():
        labels = [_escaped("A label", label) for label in condition.path]
        conditions += f" and cardinality(n.labels) >= {len(labels)}"
        for nth, label in enumerate(labels, 1):
            if label != "*":
                arguments.append(label)
                at = (
                    f"{nth}"
                    if condition.match_type == "prefix"
                    else f"cardinality(n.labels) - {len(labels) - nth}"
                )
                conditions += f" and n.labels[{at}] = ${len(arguments) + 3}"
        if condition.match_type == "prefix":
            named = labels[: labels.index("*")] if "*" in labels else labels
            prefix = max(prefix, "".join(f"{label}/" for label in named), key=len)
    return LIST % conditions, (ROOT + prefix, *arguments)
