"""What the demo shows: how it looks, and nothing of what happens.

Promise: what agents wrote is shown as text, whatever it holds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from daemon.cli.demo.script import Step
from daemon.cli.demo.world import World
from daemon.cli.output import age, number
from memory.text import one_line

_AGENT_COLOURS = {"builder": "cyan", "keeper": "magenta", "herald": "yellow"}
_TYPE_COLOURS = {"causal": "bold red", "similar": "green", "sequential": "blue", "related": "white"}
_CATEGORY_COLOURS = {"correction": "red", "pattern": "green", "summary": "blue", "recommendation": "yellow"}
_SHOWN_OF_TYPE = {"causal": 4, "similar": 3, "sequential": 2, "related": 2}

Rows = Sequence[Any]
"""Rows of the queries in command.py."""


class Show:
    """Tells the story on stdout."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._steps = 0
        self._began = time.monotonic()

    def step(self, title: str) -> None:
        """Opens the next part."""
        self._steps += 1
        self._console.print()
        self._console.rule(Text(f"{self._steps}. {title}", style="bold"), align="left", style="dim")

    def started(self, world: World) -> None:
        """The world is there."""
        self._say(f"Folder {world.folder}, daemon with process id {world.daemon_pid}.")

    def command(self, step: Step, *, exit_code: int, output: str) -> None:
        """A task has ended."""
        good = exit_code == 0
        said = next((line for line in reversed(output.splitlines()) if line.strip()), "")
        line = Text.assemble(
            ("✓ " if good else "✗ ", "green" if good else "red"),
            (f"{step.agent:<8}", _AGENT_COLOURS[step.agent]),
            step.task,
        )
        self._cut(line)
        self._cut(Text.assemble((f"            $ {step.command}", "dim")))
        said = one_line(said, 200)
        told = said if good else f"exit {exit_code}: {said}"
        self._cut(Text(f"            {told or '(no output)'}", style="" if good else "red"))

    def memories(self, memories: Rows) -> None:
        """What is remembered, oldest first."""
        shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", expand=True)
        for name in ("when", "agent", "kind"):
            shown.add_column(name, no_wrap=True)
        shown.add_column("task", ratio=3, no_wrap=True, overflow="ellipsis")
        shown.add_column("outcome", ratio=2, no_wrap=True, overflow="ellipsis")
        now = datetime.now(UTC)
        for memory in memories:
            task, outcome = _halves(memory["content"])
            failed = memory["kind"] == "error"
            shown.add_row(
                f"{age((now - memory['created_at']).total_seconds())} ago",
                Text(memory["agent_id"], style=_AGENT_COLOURS[memory["agent_id"]]),
                Text(memory["kind"], style="red" if failed else "green"),
                Text(task),
                Text(outcome, style="red" if failed else ""),
            )
        self._console.print(shown)

    def links(self, links: Rows) -> None:
        """The strongest associations of each type."""
        counts = Counter(link["association_type"] for link in links)
        told = ", ".join(f"{counts[kind]} {kind}" for kind in _SHOWN_OF_TYPE if counts[kind])
        tree = Tree(Text(f"{number(len(links), 'association')}: {told}. The strongest of each type:"))
        for kind, most in _SHOWN_OF_TYPE.items():
            shown = [link for link in links if link["association_type"] == kind][:most]
            if not shown:
                continue
            branch = tree.add(Text(kind, style=_TYPE_COLOURS[kind]))
            for link in shown:
                agent = (f"{link['agent_id']} ", _AGENT_COLOURS[link["agent_id"]])
                later = branch.add(
                    _one_line(
                        Text.assemble((f"{link['strength']:.2f} ", "bold"), agent, _told(link["memory"]))
                    )
                )
                later.add(
                    _one_line(Text(f"{age(link['seconds'])} after {_told(link['earlier'])}", style="dim"))
                )
        self._console.print(tree)

    def dream(self, session: Any, insights: Rows) -> None:
        """What the dream wrote."""
        self._say(
            f"{number(session['memories_scanned'], 'memory', 'memories')} looked over,"
            f" {number(session['clusters_found'], 'cluster')} found, {number(len(insights), 'insight')} written."
        )
        for one in insights:
            colour = _CATEGORY_COLOURS[one["category"]]
            about = (
                f"{one['category']}, confidence {one['confidence']:.2f}, from {one['memories']} memories of"
            )
            self._console.print(
                Panel(
                    Text(one["insight"]),
                    title=Text(f"{about} {one['agent_id']}", style=colour),
                    title_align="left",
                    border_style=colour,
                )
            )

    def context(self, step: Step, context: str) -> None:
        """What the agent reads before its task."""
        self._say(f"Task: {step.task}")
        self._console.print(Panel(Text(context), border_style=_AGENT_COLOURS[step.agent]))

    def ended(self) -> None:
        """All of it has happened."""
        self._console.print()
        self._say(
            f"That was all of it, in {time.monotonic() - self._began:.0f} s. Nothing is left of it here."
        )
        self._say("For your own agents: make run (or memoryd run), and in another terminal: make psql")

    def _say(self, line: str) -> None:
        self._console.print(Text(line))

    def _cut(self, line: Text) -> None:
        self._console.print(line, no_wrap=True, overflow="ellipsis")


def _halves(content: str) -> tuple[str, str]:
    """A summary's task, and its outcome with the last line of the output."""
    head, _, below = content.partition("\n")
    task, _, outcome = head.removeprefix("Task: ").rpartition(" → ")
    last = below.rpartition("\n")[2]
    return one_line(task, 200), one_line(f"{outcome}: {last}" if last else outcome, 200)


def _told(content: str) -> str:
    """A summary's task and outcome, with the task in quotation marks."""
    task, outcome = _halves(content)
    return f"“{one_line(task, 80)}” {outcome.partition(':')[0]}"


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
