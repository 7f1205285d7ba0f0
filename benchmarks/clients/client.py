"""What the Python client costs: a memory stored until it is found, and installing the client.

    python -m benchmarks.clients.client --samples 300
    python -m benchmarks.clients.client --model-ms 100
    python -m benchmarks.clients.client --install --python python3.10

Without --install: `remember`, then `recall` until it brings that memory (at once, by its words), and until `wait_indexed`
returns; among --memories, each after the last one is indexed, in turns with the same insert and recall in SQL. With
--model-ms: a recall by meaning where a model behind HTTP, which takes this long, embeds the question: the time beyond the
model's own. With --install: the wheel is built, and installed with asyncpg into new virtual environments of --python, with an
empty cache of pip and with a filled one. That needs a package index.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import asyncpg

from benchmarks.harness import DIMENSIONS, arguments, daemon, database, percentiles, report, wait_for
from benchmarks.load.pipeline import texts
from benchmarks.peers.embeddings import embedding_server
from daemon.db.settings import Model

CLIENT = Path(__file__).parents[2] / "clients" / "python"
sys.path.insert(0, str(CLIENT / "src"))

from memoryd_client import Database, Memory  # noqa: E402 - it is not installed in the environment of memoryd

MEMORIES = (
    "insert into agent_memory (agent_id, kind, content) select 'alice', 'note', t from unnest($1::text[]) t"
)
REMEMBER = "insert into agent_memory (agent_id, kind, content) values ('alice', 'fact', $1)"
RECALL = "select * from recall($1, agent_id => 'alice', match_count => 3)"
IDLE = "select not exists (select from memoryd.jobs)"
REMOTE = Model("openai/any", DIMENSIONS)
WARM = 20
"""Samples that are not counted: they pay for what is made once."""


async def measure(url: str, memories: int, samples: int) -> dict[str, object]:
    """Times in milliseconds."""
    text = texts(random.Random(1))
    stored: list[float] = []
    found: list[float] = []
    indexed: list[float] = []
    in_sql: list[float] = []
    async with daemon(url), Database(url) as through:
        connection = await asyncpg.connect(url)
        plain = await asyncpg.connect(url, server_settings={"jit": "off", "role": "memoryd_service"})
        await connection.execute(MEMORIES, [text(12) for _ in range(memories)])
        await wait_for(connection, IDLE, pause=0.05)
        await connection.execute("analyze")
        memory = Memory(through, agent="alice")
        for number in range(samples + WARM):
            content = f"{text(12)} mark{number:05}"
            began = time.perf_counter()
            made = await memory.remember(content)
            between = time.perf_counter()
            results = await memory.recall(f"mark{number:05}", count=3)
            there = time.perf_counter()
            await memory.wait_indexed(made.id)
            ended = time.perf_counter()
            assert made.id in [r.id for r in results], "it was not found at once"
            if number >= WARM:
                stored.append(between - began)
                found.append(there - began)
                indexed.append(ended - began)
            await wait_for(connection, IDLE)
            content = f"{text(12)} sign{number:05}"
            began = time.perf_counter()
            await plain.execute(REMEMBER, content)
            assert content in [r["content"] for r in await plain.fetch(RECALL, f"sign{number:05}")]
            if number >= WARM:
                in_sql.append(time.perf_counter() - began)
            await wait_for(connection, IDLE)
        await plain.close()
        await connection.close()
    return {
        "memories": memories,
        "samples": samples,
        **{f"remember_{k}": v for k, v in percentiles(stored).items()},
        **{f"sql_found_{k}": v for k, v in percentiles(in_sql).items()},
        **{f"found_{k}": v for k, v in percentiles(found).items()},
        **{f"indexed_{k}": v for k, v in percentiles(indexed).items()},
    }


async def until_indexed(url: str, memories: int, samples: int) -> dict[str, object]:
    """The same without the recall between, which takes the processor that the daemon needs."""
    text = texts(random.Random(2))
    indexed: list[float] = []
    async with daemon(url), Database(url) as through:
        connection = await asyncpg.connect(url)
        memory = Memory(through, agent="alice")
        for number in range(samples + WARM):
            content = text(12)
            began = time.perf_counter()
            await memory.wait_indexed((await memory.remember(content)).id)
            ended = time.perf_counter()
            if number >= WARM:
                indexed.append(ended - began)
            await wait_for(connection, IDLE)
        await connection.close()
    return {f"only_indexed_{k}": v for k, v in percentiles(indexed).items()}


async def questions(
    url: str, base_url: str, memories: int, samples: int, taken: list[float]
) -> dict[str, object]:
    """How much longer recalls take than the model does, whose last time is the last of `taken`; each asks something new."""
    text = texts(random.Random(3))
    beyond: list[float] = []
    remote = {
        "embedder": REMOTE.embedder, "embedding_dimensions": REMOTE.dimensions, "openai_base_url": base_url
    }  # fmt: skip
    async with daemon(url, **remote), Database(url) as through:
        connection = await asyncpg.connect(url)
        await connection.execute(MEMORIES, [text(12) for _ in range(memories)])
        await wait_for(connection, IDLE, pause=0.05)
        await connection.execute("analyze")
        await connection.close()
        memory = Memory(through, agent="alice")
        for number in range(samples + WARM):
            began = time.perf_counter()
            found = await memory.recall(text(8))
            took = time.perf_counter() - began
            assert found.by == "meaning"
            if number >= WARM:
                beyond.append(took - taken[-1])
    return {
        "memories": memories,
        "samples": samples,
        **{f"beyond_{k}": v for k, v in percentiles(beyond).items()},
    }


def install(python: str) -> dict[str, object]:
    """Building the wheel and installing it: seconds, and sizes."""
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        began = time.perf_counter()
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", name, str(CLIENT)], check=True)
        built = time.perf_counter() - began
        [wheel] = folder.glob("*.whl")
        cold, _ = _installed(python, wheel, folder / "cold")
        warm, environment = _installed(python, wheel, folder / "warm")
        [packages] = environment.glob("lib/python*/site-packages")
        return {
            "build_s": round(built, 2),
            "wheel_kb": round(wheel.stat().st_size / 1000, 1),
            "install_cold_s": cold,
            "install_warm_s": warm,
            "asyncpg_mb": round(_bytes(packages / "asyncpg") / 1e6, 2),
            "memoryd_client_mb": round(_bytes(packages / "memoryd_client") / 1e6, 2),
        }


def _installed(python: str, wheel: Path, environment: Path) -> tuple[float, Path]:
    """Installs into a new environment, with a cache beside it; seconds of pip."""
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    began = time.perf_counter()
    subprocess.run(
        [*pip, "install", str(wheel)],
        check=True,
        env=os.environ | {"PIP_CACHE_DIR": str(environment.parent / "cache")},
    )
    return round(time.perf_counter() - began, 2), environment


def _bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--memories", type=int, default=2000, help="memories of the agent")
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument(
        "--model-ms", type=float, help="measure recalls with a model that takes this long instead"
    )
    parser.add_argument("--install", action="store_true", help="measure the installation instead")
    parser.add_argument("--python", default=sys.executable, help="the Python that --install installs into")
    options = parser.parse_args()
    if options.install:
        report("client_install", install(options.python), options.json)
        return
    if options.model_ms is not None:
        taken: list[float] = []
        with (
            database(options.database_url, REMOTE) as url,
            embedding_server(pause=options.model_ms / 1000, taken=taken) as base_url,
        ):
            figures = asyncio.run(questions(url, base_url, options.memories, options.samples, taken))
        report("client_questions", figures, options.json)
        return
    with database(options.database_url) as url:
        figures = asyncio.run(measure(url, options.memories, options.samples))
        figures |= asyncio.run(until_indexed(url, options.memories, options.samples))
    report("client", figures, options.json)


if __name__ == "__main__":
    main()
