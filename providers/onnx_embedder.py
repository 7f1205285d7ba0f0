"""The embedder that runs a real model in this process, without a server: fastembed, of the extra onnx.

    MEMORYD_EMBEDDER=fastembed/BAAI/bge-small-en-v1.5     a model that fastembed knows; this machine fetches it once
    MEMORYD_EMBEDDER=fastembed//models/my-e5              a folder with tokenizer.json and an ONNX file; nothing is fetched

Promise: the event loop never waits for it, it takes no more cores than it was given, and a question waits for one small group
of texts at most. A model that cannot be loaded is an embedder that is down, with a sentence that says why.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from providers.ports import Instructions, UnavailableError, Vectors, missing
from providers.vectors import clean, unit

if TYPE_CHECKING:
    from fastembed import TextEmbedding

CORES = max(2, (os.cpu_count() or 1) // 2)
"""That a model may keep busy."""
MAX_CHARACTERS = 8_192
"""Of a text; most of these models take 512 tokens."""
GROUP = 8
"""Texts that are computed in one go: between two groups a question gets its turn; a group costs as much as its longest text."""
RETRY_SECONDS = 60.0
ONNX_FILES = ("model.onnx", "onnx/model.onnx", "model_optimized.onnx", "onnx/model_quantized.onnx")
FIRST_TOKEN = ("bge-", "arctic-embed", "mxbai-embed")
"""Families whose vector is that of the first token; of the others it is the mean."""


class OnnxEmbedder:
    """Embeds with a model of the ONNX form. Implements `Embedder`.

    Counts as remote, since its answers are worth keeping. Raises ValueError, with what to do, for a model that fastembed does
    not know, a folder without a model, and where the extra is not installed.
    """

    def __init__(self, *, model: str, dimensions: int | None, instructions: Instructions) -> None:
        try:
            import fastembed  # noqa: F401
        except ImportError:
            raise ValueError(missing(f"MEMORYD_EMBEDDER=fastembed/{model}", "onnx")) from None
        folder = Path(model).expanduser()
        self._folder = folder if model.startswith(("/", "./", "../", "~")) else None
        native = _dimensions_of_folder(folder) if self._folder else _dimensions_known(model)
        if dimensions not in (None, native):
            raise ValueError(
                f"{model} cannot have {dimensions} dimensions: set MEMORYD_EMBEDDING_DIMENSIONS to {native}, or unset it"
            )
        self.name = f"fastembed/{model}"
        self.dimensions = native
        self.remote = True
        self.instructions = instructions
        self._model_name = model
        self._model: TextEmbedding | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="onnx")

    def retry_in(self) -> float:
        return 0.0  # the circuit around it knows when to ask again

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Answer one unit vector for each text, shape (len(texts), dimensions); see `Embedder.embed`.

        The first call loads the model, and fetches it where it is not on this machine yet.
        """
        cleaned = [clean(text, MAX_CHARACTERS) or " " for text in texts]
        distinct = sorted(set(cleaned), key=len)
        found: dict[str, Any] = {}
        loop = asyncio.get_running_loop()
        for start in range(0, len(distinct), GROUP):
            group = distinct[start : start + GROUP]
            found |= zip(group, await loop.run_in_executor(self._thread, self._embed, group), strict=True)
        if not cleaned:
            return np.empty((0, self.dimensions), dtype=np.float32)
        return np.stack([found[text] for text in cleaned])

    async def close(self) -> None:
        """Let the thread end after the group that it is at."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _embed(self, texts: list[str]) -> Vectors:
        try:
            if self._model is None:
                self._model = self._load()
            rows = np.asarray(list(self._model.embed(texts, batch_size=GROUP)), dtype=np.float32)
        except Exception as error:  # noqa: BLE001 - onnxruntime, the hub and the tokenizers have no common one
            reason = str(error).strip().partition("\n")[0][:300] or type(error).__name__
            raise UnavailableError(
                f"the model cannot be loaded or run: {reason}. Check MEMORYD_EMBEDDER, and whether this machine may fetch it",
                provider=self.name,
                retry_in=RETRY_SECONDS,
            ) from None
        if rows.shape != (len(texts), self.dimensions) or not np.isfinite(rows).all():
            raise UnavailableError(
                f"the model answered {rows.shape[1:]} numbers a text instead of {self.dimensions} finite ones",
                provider=self.name,
                retry_in=RETRY_SECONDS,
            )
        return unit(rows)

    def _load(self) -> TextEmbedding:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        from fastembed import TextEmbedding

        if self._folder is None:
            cache = os.environ.get("FASTEMBED_CACHE_PATH") or str(Path("~/.cache/fastembed").expanduser())
            return TextEmbedding(self._model_name, cache_dir=cache, threads=CORES)
        _make_known(self.name, self._folder, self.dimensions)
        return TextEmbedding(self.name, threads=CORES, specific_model_path=str(self._folder))


def _dimensions_known(model: str) -> int:
    from fastembed import TextEmbedding

    for one in TextEmbedding.list_supported_models():
        if one["model"].lower() == model.lower():
            return int(one["dim"])
    raise ValueError(
        f"MEMORYD_EMBEDDER is 'fastembed/{model}', which fastembed does not know: name one of "
        "https://qdrant.github.io/fastembed/examples/Supported_Models/, or a folder that has one (fastembed//folder)"
    )


def _dimensions_of_folder(folder: Path) -> int:
    _onnx_file(folder)
    config = _json(folder / "config.json")
    for key in ("hidden_size", "d_model", "dim"):
        if isinstance(config.get(key), int) and config[key] > 0:
            return int(config[key])
    raise ValueError(f"{folder / 'config.json'} does not say how long the model's vectors are (hidden_size)")


def _onnx_file(folder: Path) -> str:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if not (folder / name).is_file():
            raise ValueError(
                f"the folder {folder} has no {name}: MEMORYD_EMBEDDER=fastembed/<folder> wants a model as fastembed reads it"
            )
    for name in ONNX_FILES:
        if (folder / name).is_file():
            return name
    raise ValueError(f"the folder {folder} has no model: one of {', '.join(ONNX_FILES)}")


def _make_known(name: str, folder: Path, dimensions: int) -> None:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    if any(one["model"].lower() == name.lower() for one in TextEmbedding.list_supported_models()):
        return
    pooling = folder / "1_Pooling" / "config.json"
    if pooling.is_file():
        first = bool(_json(pooling).get("pooling_mode_cls_token"))
    else:
        first = any(part in folder.name.lower() for part in FIRST_TOKEN)
    TextEmbedding.add_custom_model(
        model=name,
        pooling=PoolingType.CLS if first else PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(url="file:///"),
        dim=dimensions,
        model_file=_onnx_file(folder),
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {type(error).__name__}") from None
    return found if isinstance(found, dict) else {}
