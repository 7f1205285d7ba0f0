"""What a model wants to be told before a text: instructed models have one instruction for questions, one for documents.

Promise: a text is stored without them, and a model that is not known here gets none, unless the settings name some.
"""

from __future__ import annotations

from providers.ports import Instructions

MAX_CHARACTERS = 1_000
"""Of an instruction: it goes before every text, and counts among its tokens."""

_RETRIEVE = "Given a web search query, retrieve relevant passages that answer the query"
_REPRESENT = "Represent this sentence for searching relevant passages: "

_CHINESE = Instructions("为这个句子生成表示以用于检索相关文章：")  # noqa: RUF001

# The first that is part of the model's name, in lower case. As the models' own cards have them.
_KNOWN = (
    ("e5-mistral", Instructions(f"Instruct: {_RETRIEVE}\nQuery: ")),
    ("-instruct", Instructions(f"Instruct: {_RETRIEVE}\nQuery: ")),
    ("e5-", Instructions("query: ", "passage: ")),
    ("bge-m3", Instructions()),
    ("bge-reranker", Instructions()),
    ("bge-small-zh", _CHINESE),
    ("bge-base-zh", _CHINESE),
    ("bge-large-zh", _CHINESE),
    ("bge-", Instructions(_REPRESENT)),
    ("nomic-embed", Instructions("search_query: ", "search_document: ")),
    ("modernbert-embed", Instructions("search_query: ", "search_document: ")),
    ("arctic-embed-l-v2", Instructions("query: ")),
    ("arctic-embed-m-v2", Instructions("query: ")),
    ("arctic-embed2", Instructions("query: ")),
    ("arctic-embed", Instructions(_REPRESENT)),
    ("mxbai-embed", Instructions(_REPRESENT)),
    ("qwen3-embedding", Instructions(f"Instruct: {_RETRIEVE}\nQuery:")),
    ("embeddinggemma", Instructions("task: search result | query: ", "title: none | text: ")),
)


def instructions_for(model: str, *, query: str | None, document: str | None) -> Instructions:
    """Those of the settings; where they are None, those of the model called so. 'none' means none.

    Raises ValueError, with the setting to change, for one that is too long.
    """
    name = model.lower()
    known = next((found for part, found in _KNOWN if part in name), Instructions())
    return Instructions(
        _given(query, known.query, "MEMORYD_QUERY_INSTRUCTION"),
        _given(document, known.document, "MEMORYD_DOCUMENT_INSTRUCTION"),
    )


def _given(text: str | None, known: str, setting: str) -> str:
    if text is None:
        return known
    if len(text) > MAX_CHARACTERS or "\x00" in text:
        raise ValueError(
            f"{setting} has {len(text):,} characters: it goes before every text, so it may have {MAX_CHARACTERS:,}, "
            "and no NUL"
        )
    return "" if text.strip().lower() == "none" else text
