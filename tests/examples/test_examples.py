"""Each file of examples/ does what it says: run by its own line, beside one daemon, it writes what stands at its end."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.database.servers import Server
from tests.support.database.templates import copied, make_once
from tests.support.database.tokens import put_tokens_in
from tests.support.examples import EXAMPLES, as_expected, command_of, expected_of
from tests.support.processes.daemons import Daemons, environment
from tests.support.repository import ROOT

PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "clients").glob("*/README.md")]
SHOWN = re.compile(r"\[examples/([\w.]+)\][^\n]*\n\n```\w+\n(.*?)\n```", re.DOTALL)


@pytest.fixture(scope="module")
async def url(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A database with a daemon, for all examples."""
    source = f"{template}_tokens"
    await make_once(server, source, put_tokens_in, source=template)
    async with copied(server, source) as made:
        daemons = Daemons(made, tmp_path_factory.mktemp("daemon"))
        await daemons.start()
        yield made
        await daemons.kill_all()


@pytest.mark.parametrize("path", [p for p in EXAMPLES if p.suffix != ".ts"], ids=lambda path: path.name)
async def test_an_example_writes_what_it_says(path: Path, url: str, server: Server, folder: Path) -> None:
    programs = [str(Path(sys.executable).parent), os.environ["PATH"], str(server.programs.bin)]
    process = await asyncio.create_subprocess_shell(
        command_of(path),
        cwd=ROOT,
        env=environment(url, {})
        | {"PATH": os.pathsep.join(programs), "PYTHONPATH": f"{ROOT}:{ROOT / 'clients/python/src'}"}
        | {"TMPDIR": str(folder), "NO_COLOR": "1", "COLUMNS": "120"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, out.decode()
    assert as_expected(path, out.decode()), f"{out.decode()}\nis not\n{expected_of(path)}"


def test_pages_show_examples_as_they_are() -> None:
    """A block below a link to an example has paragraphs of that example, in their order."""
    shown = [(page, *found) for page in PAGES for found in SHOWN.findall(page.read_text("utf-8"))]
    assert len(shown) > 12
    for page, name, block in shown:
        there = iter(re.split(r"\n{2,}", (ROOT / "examples" / name).read_text("utf-8")))
        for paragraph in re.split(r"\n{2,}", block):
            assert any(f"\n{each}".endswith(f"\n{paragraph}") for each in there), (page.name, name, paragraph)


def test_each_example_is_listed_with_the_page_that_links_it() -> None:
    row = r"^\| .+ \| \[([\w.]+)\]\(\1\) \| \[.+\]\((\S+\.md)(?:#[\w-]+)?\) \|$"
    listed = dict(re.findall(row, (ROOT / "examples/README.md").read_text("utf-8"), re.MULTILINE))
    assert sorted(listed) == [path.name for path in EXAMPLES]
    for name, page in listed.items():
        assert f"examples/{name})" in (ROOT / "examples" / page).read_text("utf-8"), (name, page)
