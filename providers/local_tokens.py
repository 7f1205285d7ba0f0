"""The local embedder's tokens as rows for a database, which makes vectors of texts from them (memoryd.embed).

Its tokenizer merges characters pair by pair, the pair of the lowest rank first. A token is always made by the same merge of
two parts, wherever it stands in a text: while its characters are merged to just these parts, no merge has crossed its ends,
so what stands beside it made no difference. So a row has one merge, and the database makes all tokens of a text in one pass
in the order of ranks. `read_tokens` checks what this rests on.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from providers.local_embedder import package_folder, read_weights, tokenizer_file, weights_file

SPACE = "\u2581"
LONGEST = 16
"""Characters of a token; the database looks for none that is longer."""
CONTROL = ("<unk>", "<s>", "</s>")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_NORMALIZER = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": SPACE},
        {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
    ],
}


@dataclass(frozen=True, slots=True)
class Token:
    """A row of memoryd.tokens; `rank` and `head` (characters of the first part) are None where no merge makes it."""

    text: str
    rank: int | None
    head: int | None
    vector: npt.NDArray[np.float16]


def fingerprint() -> str:
    """The SHA-256 of the package's two files. Raises RuntimeError if they cannot be read."""
    return _fingerprint_of(package_folder())


@cache
def _fingerprint_of(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in (tokenizer_file(folder), weights_file(folder)):
        try:
            digest.update(path.read_bytes())
        except OSError as error:
            raise _unreadable(path) from error
    return digest.hexdigest()


def read_tokens() -> list[Token]:
    """Every token of the package. Raises RuntimeError if a file cannot be read, or is not what the database can work with."""
    folder = package_folder()
    weights = read_weights(weights_file(folder))
    path = tokenizer_file(folder)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        ids, merges = _vocabulary(config)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(path) from error
    if not _is_known(config, ids) or max(ids.values()) >= len(weights):
        raise _other_model(path)
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    rows = []
    for token, number in ids.items():
        byte = _BYTE.fullmatch(token)
        if byte is not None or token in CONTROL:
            name = byte[1].lower() if byte is not None else token
            rows.append(Token(f" {name}", None, None, weights[number]))
            continue
        merge = _last_merge(token, ranks)
        if merge is None and len(token) > 1:
            raise _other_model(path)
        rank, head = merge or (None, None)
        rows.append(Token(token, rank, head, weights[number]))
    return rows


def _vocabulary(config: dict[str, Any]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    model = config["model"]
    pairs = (tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"])
    return {str(token): int(n) for token, n in model["vocab"].items()}, [(one, other) for one, other in pairs]


def _is_known(config: dict[str, Any], ids: dict[str, int]) -> bool:
    """Whether the tokenizer works as migrations/functions/index/embed.sql has it."""
    model, added = config["model"], config["added_tokens"]
    plain = (
        config.get("normalizer") == _NORMALIZER
        and config.get("pre_tokenizer") is None
        and model["type"] == "BPE"
        and model["byte_fallback"]
        and not model.get("ignore_merges")
        and not model.get("continuing_subword_prefix")
        and not model.get("end_of_word_suffix")
    )
    return (
        plain
        and sorted(t["content"] for t in added) == sorted(CONTROL)
        and not any(t["normalized"] or t["single_word"] or t["lstrip"] or t["rstrip"] for t in added)
        and sum(_BYTE.fullmatch(token) is not None for token in ids) == 256
        and all(" " not in t and SPACE not in t.lstrip(SPACE) for t in ids)
        and all(len(t) <= LONGEST for t in ids)
    )


def _last_merge(token: str, ranks: dict[tuple[str, str], int]) -> tuple[int, int] | None:
    """The rank of the merge that makes the token, and how many characters its first part has.

    None where the characters are not merged to the token, or not by ever higher ranks.
    """
    parts = list(token)
    made = (-1, 0)
    while len(parts) > 1:
        pairs = enumerate(pairwise(parts))
        found = [(ranks[pair], n) for n, pair in pairs if pair in ranks]
        if not found or min(found)[0] < made[0]:
            return None
        rank, n = min(found)
        made = (rank, len(parts[n]))
        parts[n : n + 2] = [parts[n] + parts[n + 1]]
    return made if len(token) > 1 else None


def _unreadable(path: Path) -> RuntimeError:
    return RuntimeError(f"cannot read {path.name} of the package wordllama: reinstall memoryd")


def _other_model(path: Path) -> RuntimeError:
    return RuntimeError(f"{path.name} has another tokenizer than local/wordllama-256: reinstall memoryd")
