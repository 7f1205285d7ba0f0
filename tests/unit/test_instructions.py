"""Which instruction stands before the texts of which model."""

from __future__ import annotations

import pytest

from providers.build import INSTRUCTION_CHARACTERS, instructions_for
from providers.ports import Instructions


@pytest.mark.parametrize(
    ("model", "query", "document"),
    [
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("multilingual-e5-large-instruct", "Instruct: ", ""),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence", ""),
        ("BAAI/bge-base-zh-v1.5", "为这个句子", ""),
        ("bge-m3", "", ""),
        ("nomic-embed-text", "search_query: ", "search_document: "),
        ("snowflake-arctic-embed:33m", "Represent this sentence", ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("Qwen3-Embedding-0.6B", "Instruct: ", ""),
        ("google/embeddinggemma-300m", "task: search result | query: ", "title: none | text: "),
        ("mxbai-embed-large", "Represent this sentence", ""),
        ("text-embedding-3-small", "", ""),
    ],
)
def test_known_by_the_models_name(model: str, query: str, document: str) -> None:
    found = instructions_for(model, query=None, document=None)
    assert found.query.startswith(query)
    assert bool(found.query) == bool(query)
    assert found.document == document


def test_settings_win_and_none_means_none() -> None:
    assert instructions_for("e5-small", query="ask: ", document="none") == Instructions("ask: ", "")


@pytest.mark.parametrize("given", ["x" * 10_000, "x" * (INSTRUCTION_CHARACTERS + 1), "a\x00b"])
def test_one_that_cannot_stand_before_every_text_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="MEMORYD_DOCUMENT_INSTRUCTION"):
        instructions_for("e5-small", query=None, document=given)
