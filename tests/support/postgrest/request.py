"""A request as PostgREST reads it: what is selected, filtered, ordered, preferred, and what the body says.

Part of tests/support/postgrest/server.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tests.support.postgrest.errors import RefusedError

OPERATORS = {
    "eq": "=", "neq": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "like": "like", "ilike": "ilike",
    "cs": "@>", "cd": "<@", "ov": "&&", "is": "is", "in": "in",
}  # fmt: skip
RESERVED = frozenset({"select", "order", "limit", "offset", "columns", "on_conflict"})
OBJECT = "application/vnd.pgrst.object+json"
_CONDITION = re.compile(r"(?P<negated>not\.)?(?P<operator>[a-z]+)\.(?P<value>.*)", re.DOTALL)
_COLUMN = re.compile(r"(?:(?P<alias>[^:]+):)?(?P<name>[^:]+)(?:::(?P<type>[\w ]+))?")


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked."""

    method: str
    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    claims: Mapping[str, Any] = field(default_factory=dict)
    role: str = "anon"

    def parameter(self, name: str) -> str | None:
        """A reserved parameter, if it was given."""
        return dict(self.query).get(name)

    def prefers(self, preference: str) -> bool:
        """Whether a header Prefer says so, as in return=representation."""
        return preference in re.split(r"\s*,\s*", self.headers.get("prefer", ""))

    @property
    def wants_one(self) -> bool:
        """Whether exactly one row is asked for, as an object."""
        return OBJECT in self.headers.get("accept", "")

    @property
    def conditions(self) -> list[tuple[str, str]]:
        """The parameters that filter rows."""
        return [(name, value) for name, value in self.query if name not in RESERVED and _is_condition(value)]

    @property
    def arguments(self) -> dict[str, str]:
        """The parameters that are arguments of a function, of a GET."""
        return {
            name: value for name, value in self.query if name not in RESERVED and not _is_condition(value)
        }


def identifier(name: str) -> str:
    """A name in SQL."""
    return '"' + name.partition("\0")[0].replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL, of no type: Postgres takes that of what it is compared with."""
    if "\0" in text:
        raise RefusedError(400, "22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    return "'" + text.replace("'", "''") + "'"


def selected(request: Request, source: str) -> str:
    """The columns of select=, of this table or query."""
    asked = request.parameter("select") or "*"
    if "(" in asked or "->" in asked:
        not_covered("embedded tables and JSON paths in select=")
    return ", ".join(_selected(part.strip(), source) for part in asked.split(","))


def _selected(part: str, source: str) -> str:
    if part == "*":
        return f"{source}.*"
    found = _COLUMN.fullmatch(part)
    if found is None:
        raise RefusedError(400, "PGRST100", f'"failed to parse select parameter ({part})"')
    column = f"{source}.{identifier(found['name'])}"
    cast = f"cast({column} as {found['type']})" if found["type"] else column
    name = found["alias"] or (found["name"] if found["type"] else None)
    return f"{cast} as {identifier(name)}" if name else cast


def filtered(request: Request, source: str) -> str:
    """The where clause of the conditions, or nothing."""
    parts = [_condition(source, name, value) for name, value in request.conditions]
    return " where " + " and ".join(parts) if parts else ""


def _condition(source: str, name: str, value: str) -> str:
    if name in ("or", "and") or "->" in name:
        not_covered("or=, and= and JSON paths in conditions")
    found = _CONDITION.fullmatch(value)
    assert found is not None
    operator, said = found["operator"], found["value"]
    column = f"{source}.{identifier(name)}"
    match operator:
        case "is" if said in ("null", "true", "false", "unknown", "not_null"):
            right = said.replace("_", " ")
        case "in":
            right = (
                "(" + ", ".join(literal(one) for one in _listed(said)) + ")" if _listed(said) else "(null)"
            )
        case "like" | "ilike":
            right = literal(said.replace("*", "%"))
        case _:
            right = literal(said)
    return f"{'not ' if found['negated'] else ''}{column} {OPERATORS[operator]} {right}"


def _listed(said: str) -> list[str]:
    """The values of in.(a,"b,c")."""
    inside = said.removeprefix("(").removesuffix(")")
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"|([^,]+)', inside)
    return [re.sub(r"\\(.)", r"\1", quoted) if quoted else plain for quoted, plain in parts]


def limited(request: Request, source: str) -> str:
    """The order, limit and offset, or nothing."""
    said = ""
    if order := request.parameter("order"):
        said += " order by " + ", ".join(_ordered(part, source) for part in order.split(","))
    for name in ("limit", "offset"):
        if (value := request.parameter(name)) is not None:
            if not re.fullmatch(r"-?\d{1,18}", value):
                raise RefusedError(400, "PGRST100", f'"failed to parse {name} ({value})"')
            if int(value) < 0:
                raise RefusedError(
                    416, "PGRST103", "Requested range not satisfiable", "Limit should be >= 0."
                )
            said += f" {name} {value}"
    return said


def _ordered(part: str, source: str) -> str:
    name, *ways = part.split(".")
    known = {"asc": "asc", "desc": "desc", "nullsfirst": "nulls first", "nullslast": "nulls last"}
    if not set(ways) <= set(known):
        raise RefusedError(400, "PGRST100", f'"failed to parse order ({part})"')
    return " ".join([f"{source}.{identifier(name)}", *(known[way] for way in ways)])


def parsed(request: Request) -> Any:
    """The body as JSON: what is in it is for Postgres to judge."""
    if not request.body.strip():
        return {}
    try:
        return json.loads(request.body.decode(), parse_constant=_no_constant)
    except RecursionError:
        return _names_in(request.body.decode())
    except ValueError:
        raise RefusedError(400, "PGRST102", "Empty or invalid json") from None


def _names_in(deep: str) -> dict[str, None]:
    """The names on the first level of an object that is nested too deep for Python: Postgres judges it."""
    names: dict[str, None] = {}
    level, last = 0, None
    for found in re.finditer(r'"((?:[^"\\]|\\.)*)"|[{}\[\]:]', deep):
        level += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
        if found[0] == ":" and level == 1 and last is not None:
            names[last] = None
        last = found[1]
    return names


def columns_of(request: Request, body: Any) -> list[str]:
    """The columns that a body has: those of columns=, or the keys, which all its objects share."""
    if asked := request.parameter("columns"):
        return [name.strip('"') for name in asked.split(",")]
    rows: Iterable[Any] = body if isinstance(body, list) else [body]
    keys = [list(row) if isinstance(row, dict) else None for row in rows]
    if None in keys or any(set(one or ()) != set(keys[0] or ()) for one in keys):
        raise RefusedError(400, "PGRST102", "All object keys must match")
    return list(keys[0] or ()) if keys else []


def not_covered(what: str) -> NoReturn:
    """Raises for what PostgREST can and this server cannot: a test must not go on with a wrong answer."""
    raise RefusedError(501, "NOT_COVERED", f"tests/support/postgrest/server.py does not know: {what}")


def _is_condition(value: str) -> bool:
    found = _CONDITION.fullmatch(value)
    return found is not None and found["operator"] in OPERATORS


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)
