"""A model in this process, from a folder: its vectors, and what is said where it cannot be loaded."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from memory.calibration import SUBJECTS
from providers.build import build_embedder
from providers.ports import Embedder, Instructions, UnavailableError
from tests.support.content.onnx_model import DIMENSIONS, write_model
from tests.support.database.schemas import apply, connected
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import remember
from tests.support.waiting import IDLE, until

WORDS = sorted({"car", "whale", "query", "passage", *re.findall(r"\w+|[^\w\s]", " ".join(SUBJECTS))})


def build(name: str, dimensions: int | None = None) -> Embedder:
    """As the settings do."""
    return build_embedder(
        f"fastembed/{name}", dimensions=dimensions, base_url=None, api_key=None, timeout_seconds=1
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models") / "e5-made-up"
    write_model(made, WORDS)
    return made


async def test_a_folder_with_a_model_embeds_any_text(folder: Path) -> None:
    embedder = build(str(folder))
    assert (embedder.dimensions, embedder.name) == (DIMENSIONS, f"fastembed/{folder}")
    assert embedder.instructions.query == "query: "
    texts = ["car", "whale", "", "car whale", "\x00\ud800", "car " * 10_000, "car"]
    found = await embedder.embed(texts)
    assert found.shape == (len(texts), DIMENSIONS)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert np.allclose(found[0], found[5], atol=1e-4)
    assert found[0] @ found[3] > 0.3
    assert (await embedder.embed([])).shape == (0, DIMENSIONS)
    await embedder.close()


@pytest.mark.parametrize(
    ("left_out", "says"),
    [("model.onnx", "has no model"), ("tokenizer.json", "no tokenizer.json"), ("config.json", "config.json")],
)
def test_a_folder_without_a_model_is_a_sentence(tmp_path: Path, left_out: str, says: str) -> None:
    write_model(tmp_path / "model", WORDS)
    (tmp_path / "model" / left_out).unlink()
    with pytest.raises(ValueError, match=says):
        build(str(tmp_path / "model"))


def test_names_and_dimensions_that_there_are_not(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not know"):
        build("nobody/none")
    with pytest.raises(ValueError, match="MEMORYD_EMBEDDING_DIMENSIONS to 16"):
        build(str(folder), 8)
    with pytest.raises(ValueError, match="has no tokenizer"):
        build(str(tmp_path / "none"))


async def test_a_broken_file_is_an_embedder_that_is_down(tmp_path: Path) -> None:
    write_model(tmp_path / "model", WORDS)
    (tmp_path / "model" / "model.onnx").write_bytes(b"no model")
    embedder = build(str(tmp_path / "model"))
    with pytest.raises(UnavailableError, match="cannot be loaded"):
        await embedder.embed(["car"])
    assert embedder.retry_in() > 10
    await embedder.close()


def test_nothing_of_it_is_imported_before_it_is_named() -> None:
    loaded = "any(m.startswith(('fastembed', 'onnx')) for m in sys.modules)"
    code = f"import sys, providers.build, daemon.cli.app; sys.exit({loaded})"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


async def test_a_daemon_embeds_with_it_and_questions_find_by_meaning(
    folder: Path, empty_url: str, tmp_path: Path
) -> None:
    embedder = f"fastembed/{folder}"
    instructions = Instructions("query: ", "passage: ")
    await apply(empty_url, dimensions=DIMENSIONS, embedder=embedder, instructions=instructions)
    daemons, memoryd = Daemons(empty_url, tmp_path), Commands(empty_url, tmp_path)
    try:
        daemon = await daemons.start(embedder=embedder)
        await daemon.event("embedder_calibrated")
        async with connected(empty_url) as connection:
            await remember(connection, "car", agent_id="alice")
            await until(connection, IDLE)
            asked = await connection.fetchval(
                "insert into memory_requests (kind, agent_id, query) values ('recall', 'alice', 'car') returning id"
            )
            await until(connection, "select status = 'done' from memory_requests where id = $1", asked)
            (found,) = json.loads(
                await connection.fetchval("select result from memory_requests where id = $1", asked)
            )
            assert found["similarity"] > 0
        told = await memoryd("recall", "car", "--json", embedder=embedder)
        assert json.loads(told.out)[0]["similarity"] == pytest.approx(found["similarity"], abs=1e-3), told.err
    finally:
        await daemons.kill_all()
