"""Messages on standard input that cannot be read: each gets an error as its answer, so that no client waits for ever.

The SDK drops such a message. Most often a model has cut an emoji in half: JavaScript writes the half as a lone surrogate,
which is not Unicode. Promise: the answer has the id of the message if the message has one, and nothing else of it.
"""

from __future__ import annotations

import json
import re
from typing import Any

import mcp_types as types
from pydantic import ValidationError

TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}:]|-?[\d.eE+-]+', re.DOTALL)
HALF = "A text in it has a part of a character, such as half of an emoji (a lone surrogate). Send it again without that."
BATCH = "Send one message at a time: the protocol has no batches."
NAMELESS = "A call needs an id: a text or a whole number."
OTHER = "This is not a message of JSON-RPC 2.0. Send one object with jsonrpc, method and, for a call, id and params."


def answer_unread(error: Exception) -> types.JSONRPCError | None:
    """The answer to a line that the SDK could not read, made from the SDK's error; None if nobody waits for an answer."""
    if not isinstance(error, ValidationError):
        return _answer(None, types.PARSE_ERROR, OTHER)
    faults = error.errors(include_url=False, include_context=False)
    first = faults[0]
    if first["type"] == "json_invalid":
        line = str(first["input"])
        if not line.strip():
            return None
        said = HALF if "hex escape" in first["msg"] else OTHER
        return _answer(_id_in(line), types.PARSE_ERROR, f"{first['msg'][:200]}. {said}")
    # pydantic reports a missing field with the whole message.
    whole = next((each["input"] for each in faults if each["type"] == "missing"), first["input"])
    asked = isinstance(whole, dict) and isinstance(whole.get("method"), str)
    said = BATCH if isinstance(whole, list) else OTHER
    return _answer(_usable(whole.get("id")) if asked else None, types.INVALID_REQUEST, said)


def answer_nameless(message: types.JSONRPCMessage) -> types.JSONRPCError | None:
    """The answer to a call with an invalid id, such as NaN, which the SDK takes for a notification; None for a notification."""
    if isinstance(message, types.JSONRPCNotification) and not message.method.startswith("notifications/"):
        return _answer(None, types.INVALID_REQUEST, NAMELESS)
    return None


def _answer(of: types.RequestId | None, code: int, message: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=of, error=types.ErrorData(code=code, message=message))


def _id_in(line: str) -> types.RequestId | None:
    """The id of a message that is not JSON, or nests too deeply: read without recursion from its outermost object."""
    depth = 0
    before = ("", "")
    for found in TOKENS.finditer(line):
        token = found.group()
        if depth == 1 and before == ('"id"', ":"):
            return _usable(_read(token))
        if token in ("{", "["):
            depth += 1
        elif token in ("}", "]"):
            depth -= 1
        before = (before[1], token)
    return None


def _read(token: str) -> Any:
    try:
        return json.loads(token)
    except ValueError:
        return None


def _usable(given: object) -> types.RequestId | None:
    # An id that cannot be written is not repeated.
    if isinstance(given, str):
        return given if given.isprintable() and len(given) <= 1_000 else None
    return given if isinstance(given, int) and not isinstance(given, bool) else None
