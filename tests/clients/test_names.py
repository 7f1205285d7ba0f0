"""The clients in Python and in TypeScript have the same calls and options, each in the case of its language."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import memoryd_client
import pytest

from tests.support.repository import ROOT

ONLY_IN_PYTHON = {
    "close": "a supabase client has no connections to close",
    "feedback": "over PostgREST each call is a transaction of its own, so no recall has an id to judge",
}


def calls_in_typescript(file: str, interface: str) -> set[str]:
    """The functions of an interface."""
    text = (ROOT / "clients/typescript/src" / file).read_text("utf-8")
    found = re.search(rf"^export interface {interface} \{{\n(.*?)^\}}", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return set(re.findall(r"^  (\w+)(?:<[^(]*>)?\(", found[1], re.MULTILINE))


def in_camel_case(name: str) -> str:
    """`wait_indexed` as `waitIndexed`."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


@pytest.mark.parametrize(
    ("owner", "file", "interface"),
    [
        (memoryd_client.Memory, "memory.ts", "AgentMemory"),
        (memoryd_client.ChatMemory, "chat.ts", "ChatMemory"),
        (memoryd_client.Knowledge, "knowledge.ts", "Knowledge"),
    ],
)
def test_what_python_can_typescript_can(owner: type, file: str, interface: str) -> None:
    calls = {name for name in dir(owner) if not name.startswith("_")} - ONLY_IN_PYTHON.keys()
    assert calls, owner
    assert {in_camel_case(name) for name in calls} <= calls_in_typescript(file, interface)


@pytest.mark.parametrize(
    ("call", "file", "interface"),
    [
        (memoryd_client.Memory.remember, "options.ts", "RememberOptions"),
        (memoryd_client.Knowledge.note, "knowledge.ts", "NoteOptions"),
        (memoryd_client.Knowledge.decisions, "knowledge.ts", "DecisionOptions"),
    ],
)
def test_they_take_the_same_options(call: Callable[..., object], file: str, interface: str) -> None:
    named = inspect.signature(call).parameters.values()
    options = {in_camel_case(each.name) for each in named if each.kind is each.KEYWORD_ONLY}
    text = (ROOT / "clients/typescript/src" / file).read_text("utf-8")
    found = re.search(
        rf"^export interface {interface} extends Cancellable.*? \{{\n(.*?)^\}}",
        text,
        re.MULTILINE | re.DOTALL,
    )
    assert found is not None
    assert options == set(re.findall(r"^  (\w+)\?:", found[1], re.MULTILINE))
