"""A model on this machine that speaks the protocols of coding agents' models: it calls tools, then says one sentence.

Anthropic's messages, OpenAI's chat completions and responses, Gemini's generateContent, as streams of server-sent events. A
request with the results of so many tools is answered with the next call, if it offers that tool, any other with the sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from benchmarks.served import Handler, served

COMMAND = "make nothing-of-this-name"
SENTENCE = "The sender now waits up to 300 seconds between two tries, with jitter, and the tests of it pass as they did before."
SHELL = "Bash|bash|run_shell_command|exec_command|shell_command"
RESULT = re.compile('"tool_result"|"functionResponse"|"function_call_output"|"role": "tool"')
SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema")
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "prompt_tokens": 1, "completion_tokens": 1}
Told = list[tuple[str, dict[str, Any]]]


class Call(NamedTuple):
    """Of a tool, whose name, or the end of it, is this pattern."""

    tool: str
    arguments: dict[str, Any]
    id: str = ""
    space: str | None = None
    """Codex calls the tool of a server in a namespace."""


BUILD = Call(SHELL, {"command": COMMAND, "cmd": COMMAND, "description": "Build", "mode": "sync"})


def _messages(call: Call | None) -> Told:
    block: dict[str, Any] = {"type": "text", "text": ""}
    said: dict[str, Any] = {"type": "text_delta", "text": SENTENCE}
    if call:
        block = {"type": "tool_use", "id": call.id, "name": call.tool, "input": {}}
        said = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
    message: dict[str, Any] = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    stop = {"stop_reason": "tool_use" if call else "end_turn"}
    return _named([
        {"type": "message_start", "message": message | {"usage": USAGE}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": said},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": USAGE},
        {"type": "message_stop"},
    ])  # fmt: skip


def _named(events: list[dict[str, Any]]) -> Told:
    return [(event["type"], event) for event in events]


def _completions(call: Call | None) -> Told:
    said: dict[str, Any] = {"role": "assistant", "content": SENTENCE}
    if call:
        function = {"name": call.tool, "arguments": json.dumps(call.arguments)}
        calls = [{"index": 0, "id": call.id, "type": "function", "function": function}]
        said = {"role": "assistant", "tool_calls": calls}
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}
    return [
        ("", head | {"choices": [{"index": 0, "delta": said, "finish_reason": None}]}),
        ("", head | {"choices": [end], "usage": USAGE}),
    ]


def _responses(call: Call | None) -> Told:
    item: dict[str, Any] = {"id": "i1", "status": "completed"}
    if call:
        told = json.dumps(call.arguments)
        item |= {"type": "function_call", "call_id": call.id, "name": call.tool, "arguments": told}
        item |= {"namespace": call.space} if call.space else {}
    else:
        text = {"type": "output_text", "text": SENTENCE, "annotations": []}
        item |= {"type": "message", "role": "assistant", "content": [text]}
    head = {"id": "r1", "object": "response", "created_at": 1, "model": "m"}
    return _named([
        {"type": "response.created", "response": head | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": head | {"status": "completed", "output": [item], "usage": USAGE}},
    ])  # fmt: skip


def _generated(call: Call | None) -> Told:
    part = {"functionCall": {"name": call.tool, "args": call.arguments}} if call else {"text": SENTENCE}
    content = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return [("", {"candidates": [content], "usageMetadata": {"totalTokenCount": 2}})]


ANSWERS = {
    "/messages": _messages,
    "/chat/completions": _completions,
    "/responses": _responses,
    "enerateContent": _generated,
}


class _Model(Handler):
    asked: list[str]
    calls: Sequence[Call]

    def respond(self) -> None:
        body = self.body().decode(errors="replace")
        path = self.path.partition("?")[0]
        answer = next((answer for end, answer in ANSWERS.items() if path.endswith(end)), None)
        if answer is None or self.command == "GET":  # of its models, and the like
            self.answer(b'{"data": []}')
            return
        self.asked.append(body)
        told = answer(_next(json.loads(body), self.calls))
        if answer is _generated and "stream" not in path:
            self.answer(json.dumps(told[0][1]).encode())
            return
        lines = [(f"event: {name}\n" if name else "") + f"data: {json.dumps(one)}\n\n" for name, one in told]
        lines += ["data: [DONE]\n\n"] * (answer is _completions)
        self.answer("".join(lines).encode(), kind="text/event-stream")


def _next(request: dict[str, Any], calls: Sequence[Call]) -> Call | None:
    """The call that follows the results in a request, by the whole name of its tool; None: the model has its say."""
    said = json.dumps([request.get(k) for k in ("messages", "input", "contents")])
    done = len(RESULT.findall(said))
    if done >= len(calls):
        return None
    wanted = re.compile(rf"(?:^|[^a-z])(?:{calls[done].tool})$")
    for tool in request.get("tools") or []:
        space = tool["name"] if "tools" in tool else None
        for one in tool.get("functionDeclarations") or tool.get("tools") or [tool.get("function", tool)]:
            if wanted.search(one.get("name", "")):
                schema: dict[str, Any] = next((one[name] for name in SCHEMAS if name in one), {})
                known = schema.get("properties", calls[done].arguments)
                given = {name: value for name, value in calls[done].arguments.items() if name in known}
                return Call(one["name"], given, f"t{done}", space)
    return None


@contextmanager
def model_server(*calls: Call) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the bodies of the requests that it gets."""
    asked: list[str] = []
    with served(type("Model", (_Model,), {"asked": asked, "calls": calls})) as address:
        yield address, asked
