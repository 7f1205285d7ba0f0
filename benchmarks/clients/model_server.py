"""A model on this machine that speaks the protocols of coding agents' models: it runs one command, then says one sentence.

Anthropic's messages, OpenAI's chat completions and responses, Gemini's generateContent, as streams of server-sent events. A
request that has the result of a tool is answered with the sentence, any other that offers a shell with the command.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMAND = "make nothing-of-this-name"
SENTENCE = "The sender now waits up to 300 seconds between two tries, with jitter, and the tests of it pass as they did before."
SHELLS = ("Bash", "bash", "run_shell_command", "exec_command", "shell_command")
RESULTS = ('"tool_result"', '"functionResponse"', '"function_call_output"', '"role": "tool"')
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "prompt_tokens": 1, "completion_tokens": 1}
Told = list[tuple[str, dict[str, Any]]]


def _messages(call: str | None) -> Told:
    block = (
        {"type": "tool_use", "id": "t1", "name": call, "input": {}} if call else {"type": "text", "text": ""}
    )
    said = {
        "type": "input_json_delta",
        "partial_json": json.dumps({"command": COMMAND, "description": "Build"}),
    }
    message: dict[str, Any] = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message | {"usage": USAGE}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": said if call else {"type": "text_delta", "text": SENTENCE},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use" if call else "end_turn"},
            "usage": USAGE,
        },
        {"type": "message_stop"},
    ]
    return [(str(event["type"]), event) for event in events]


def _completions(call: str | None) -> Told:
    arguments = json.dumps({"command": COMMAND, "description": "Build", "mode": "sync"})
    function = {
        "index": 0,
        "id": "t1",
        "type": "function",
        "function": {"name": call, "arguments": arguments},
    }
    said = {"role": "assistant", **({"tool_calls": [function]} if call else {"content": SENTENCE})}
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return [
        ("", head | {"choices": [{"index": 0, "delta": said, "finish_reason": None}]}),
        (
            "",
            head
            | {
                "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}],
                "usage": USAGE,
            },
        ),
    ]


def _responses(call: str | None) -> Told:
    item: dict[str, Any] = {"id": "i1", "status": "completed"}
    if call:
        argument = "cmd" if call == "exec_command" else "command"
        item |= {
            "type": "function_call",
            "call_id": "t1",
            "name": call,
            "arguments": json.dumps({argument: COMMAND}),
        }
    else:
        text = {"type": "output_text", "text": SENTENCE, "annotations": []}
        item |= {"type": "message", "role": "assistant", "content": [text]}
    whole = {
        "id": "r1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": [item],
    }
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": whole | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole | {"usage": USAGE}},
    ]
    return [(str(event["type"]), event) for event in events]


def _generated(call: str | None) -> Told:
    part = {"functionCall": {"name": call, "args": {"command": COMMAND}}} if call else {"text": SENTENCE}
    content = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return [("", {"candidates": [content], "usageMetadata": {"totalTokenCount": 2}})]


ANSWERS = {
    "/messages": _messages,
    "/chat/completions": _completions,
    "/responses": _responses,
    "enerateContent": _generated,
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: list[str]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._send(json.dumps({"data": []}))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode(errors="replace")
        path = self.path.partition("?")[0]
        answer = next((answer for end, answer in ANSWERS.items() if path.endswith(end)), None)
        if answer is None:
            self._send("{}")
            return
        self.asked.append(body)
        request = json.loads(body)
        said = json.dumps([request.get(k) for k in ("messages", "input", "contents")])
        offered = json.dumps(request.get("tools") or [])
        shell = next((name for name in SHELLS if f'"{name}"' in offered), None)
        told = answer(None if any(one in said for one in RESULTS) else shell)
        if answer is _generated and "stream" not in path:
            self._send(json.dumps(told[0][1]))
            return
        lines = [
            f"event: {name}\ndata: {json.dumps(one)}\n\n" if name else f"data: {json.dumps(one)}\n\n"
            for name, one in told
        ]
        self._send(
            "".join(lines) + ("data: [DONE]\n\n" if answer is _completions else ""), kind="text/event-stream"
        )

    def _send(self, text: str, *, kind: str = "application/json") -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def model_server() -> Iterator[tuple[str, list[str]]]:
    """Its address, and the bodies of the requests that it gets."""
    asked: list[str] = []
    handler = type("Handler", (_Handler,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
