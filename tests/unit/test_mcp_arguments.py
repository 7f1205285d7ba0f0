"""Arguments that no client can send over JSON that is checked, and that reach the tools all the same."""

from __future__ import annotations

import json
import re

import pytest

from plugins.mcp.arguments import Recall, read
from plugins.mcp.faults import CallRefusedError
from plugins.mcp.identity import Identity
from plugins.mcp.server import described
from plugins.mcp.tools import tools_of


@pytest.mark.parametrize(
    "given",
    [
        {"query": "half a pair \ud800"},
        {"query": "x", "half a pair \ud800": 1},
        {"query": "x", "count": 10**400},
        {"query": "x", "min_score": float("nan")},
        {"query": ["x"]},
        {"query": "x", "since": "yesterday"},
        {"query": "x", "sources": ["everything"]},
        {str(n): n for n in range(10_000)},
    ],
)
def test_what_cannot_be_is_refused_in_a_short_sentence(given: dict[str, object]) -> None:
    with pytest.raises(CallRefusedError) as refused:
        read(Recall, given)
    said = str(refused.value)
    assert said.startswith("Nothing was done.")
    assert len(said.encode()) < 1_000


@pytest.mark.parametrize("wrong", ["yesterday", "2026-13-01", "", True])
def test_a_wrong_time_is_refused_with_a_right_one(wrong: object) -> None:
    with pytest.raises(CallRefusedError, match='such as "2026-03-01" or'):
        read(Recall, {"query": "x", "since": wrong})


def test_a_schema_has_only_what_geminis_api_takes() -> None:
    """It answers 400 to a request with a tool that has another format of a string, a reference or several types."""
    tools = tools_of(Identity("alice")).values()
    schemas = json.dumps([described(tool, among=()).input_schema for tool in tools])
    assert set(re.findall(r'"format": "([^"]+)"', schemas)) == {"date-time"}
    assert not re.search(r'"(anyOf|oneOf|allOf|\$ref|\$defs|const|exclusiveM\w+)"|"type": \[', schemas)
