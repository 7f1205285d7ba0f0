"""A made-up embedding model in the form that fastembed reads: each word has a vector, a text's is their mean.

The ONNX file is written here, field by field of its protocol buffers, since a package that writes it is not needed for
anything else.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

DIMENSIONS = 16
FLOAT, INT64 = 1, 7


def write_model(folder: Path, words: list[str]) -> None:
    """Makes the folder with a model that knows these words."""
    folder.mkdir(parents=True)
    vocabulary = {word: n for n, word in enumerate(["[PAD]", "[UNK]", *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    write = {
        "config.json": {"hidden_size": DIMENSIONS, "pad_token_id": 0},
        "tokenizer_config.json": {"model_max_length": 64, "pad_token": "[PAD]"},
        "special_tokens_map.json": {"pad_token": "[PAD]", "unk_token": "[UNK]"},
    }
    for name, content in write.items():
        (folder / name).write_text(json.dumps(content))
    weights = np.random.default_rng(1).standard_normal((len(vocabulary), DIMENSIONS)).astype("<f4")
    (folder / "model.onnx").write_bytes(_model(weights))


def _model(weights: np.ndarray) -> bytes:
    node = _text(1, "weights") + _text(1, "input_ids") + _text(2, "last_hidden_state") + _text(4, "Gather")
    table = b"".join(_number(1, n) for n in weights.shape) + _number(2, FLOAT) + _text(8, "weights")
    table += _bytes(9, weights.tobytes())
    given = [_value(name, INT64, ["batch", "words"]) for name in ("input_ids", "attention_mask")]
    graph = _bytes(1, node) + _text(2, "made up") + _bytes(5, table)
    graph += b"".join(_bytes(11, one) for one in given)
    graph += _bytes(12, _value("last_hidden_state", FLOAT, ["batch", "words", DIMENSIONS]))
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, 13))


def _value(name: str, kind: int, shape: list[str | int]) -> bytes:
    sizes = b"".join(_bytes(1, _text(2, s) if isinstance(s, str) else _number(1, s)) for s in shape)
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, sizes)))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())
