"""From a setting's words to a provider: the one place that knows which providers there are.

Promise: a provider that comes from here is complete (circuit and all), and a wrong setting fails at start
with a sentence that names the setting. Nothing of a provider that is not chosen is imported. A text is stored without the
instructions of a model, and a model that is not known here gets none, unless the settings name some.
"""

from __future__ import annotations

from providers.circuit import Circuit, CircuitEmbedder, CircuitLanguageModel, OnChange, log_change
from providers.ports import Embedder, Instructions, LanguageModel, WordEmbedder

LOCAL = "local/wordllama-256"
ALLOWED_EMBEDDERS = (
    f"{LOCAL}, openai/text-embedding-3-small, openai/text-embedding-3-large, openai/<any model of the server>, "
    "fastembed/<model or folder>"
)

NATIVE_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
SHORTENABLE = frozenset({"text-embedding-3-small", "text-embedding-3-large"})
MAX_DIMENSIONS = 16_000
"""What a pgvector column can store; an index takes no more than 2,000 of type vector."""


WORD_DIMENSIONS = 256
"""Of the vectors in memoryd.lexicon."""

INSTRUCTION_CHARACTERS = 1_000
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


def build_embedder(
    name: str,
    *,
    dimensions: int | None,
    base_url: str | None,
    api_key: str | None,
    timeout_seconds: float,
    told: tuple[str | None, str | None] = (None, None),
    on_circuit_change: OnChange = log_change,
) -> Embedder:
    """Build the embedder called 'local/wordllama-256', 'openai/<model>' or 'fastembed/<model or folder>'.

    `dimensions` None means the model's own number, which must be given for a model of a server that is not known here. `told`
    has the instructions before questions and before documents, None for the model's own, if it is known; the local model has
    none. Raises ValueError that names the setting to change, RuntimeError if the package of the local model is missing.
    """
    if dimensions is not None and not 1 <= dimensions <= MAX_DIMENSIONS:
        raise ValueError(
            f"MEMORYD_EMBEDDING_DIMENSIONS is {dimensions}: it must be from 1 to {MAX_DIMENSIONS}"
        )
    if name == LOCAL:
        from providers.local_embedder import LocalEmbedder

        return LocalEmbedder(dimensions=256 if dimensions is None else dimensions)
    check_names(name, None)
    model = name.partition("/")[2]
    instructions = instructions_for(model, query=told[0], document=told[1])
    if name.startswith("fastembed/"):
        from providers.onnx_embedder import OnnxEmbedder

        local = OnnxEmbedder(model=model, dimensions=dimensions, instructions=instructions)
        return CircuitEmbedder(local, Circuit(local.name, on_change=on_circuit_change))
    resolved = _openai_dimensions(model, dimensions)

    from providers.openai_embedder import OpenAIEmbedder

    inner = OpenAIEmbedder(
        model=model,
        dimensions=resolved,
        base_url=base_url,
        api_key=api_key,
        timeout_seconds=timeout_seconds,
        instructions=instructions,
    )
    return CircuitEmbedder(inner, Circuit(inner.name, on_change=on_circuit_change))


def build_word_embedder(embedder: Embedder) -> WordEmbedder:
    """What embeds single words: `embedder` itself where it is the local one at its full width, else one like that."""
    from providers.local_embedder import LocalEmbedder

    if isinstance(embedder, LocalEmbedder) and embedder.dimensions == WORD_DIMENSIONS:
        return embedder
    return LocalEmbedder(dimensions=WORD_DIMENSIONS)


def check_names(embedder: str, language_model: str | None) -> None:
    """Raises ValueError, with the setting to change, where there is no such provider."""
    provider, _, model = embedder.partition("/")
    if embedder != LOCAL and (provider not in ("openai", "fastembed") or not model.strip()):
        raise ValueError(f"MEMORYD_EMBEDDER is {embedder!r}: it must be one of {ALLOWED_EMBEDDERS}")
    if language_model and _openai_model(language_model) is None:
        raise ValueError(
            f"MEMORYD_LANGUAGE_MODEL is {language_model!r}: it must be openai/<model>, or empty for none"
        )


def build_language_model(
    name: str | None,
    *,
    base_url: str | None,
    api_key: str | None,
    timeout_seconds: float,
    on_circuit_change: OnChange = log_change,
) -> LanguageModel | None:
    """Build the language model called 'openai/<model>', or None if there is no name: rules then write the insights.

    Raises ValueError that names the setting to change.
    """
    if not name:
        return None
    check_names(LOCAL, name)
    model = name.partition("/")[2]

    from providers.openai_language_model import OpenAILanguageModel

    inner = OpenAILanguageModel(
        model=model, base_url=base_url, api_key=api_key, timeout_seconds=timeout_seconds
    )
    return CircuitLanguageModel(inner, Circuit(inner.name, on_change=on_circuit_change))


def _openai_model(name: str) -> str | None:
    provider, _, model = name.partition("/")
    return model if provider == "openai" and model.strip() else None


def _openai_dimensions(model: str, wanted: int | None) -> int:
    native = NATIVE_DIMENSIONS.get(model)
    if native is None:
        if wanted is None:
            raise ValueError(
                f"how long the vectors of {model} are is not known: set MEMORYD_EMBEDDING_DIMENSIONS"
            )
        return wanted
    if wanted is None or wanted == native:
        return native
    if model not in SHORTENABLE or wanted > native:
        raise ValueError(
            f"{model} cannot have {wanted} dimensions: "
            f"set MEMORYD_EMBEDDING_DIMENSIONS to {native}, or unset it"
        )
    return wanted


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
    if len(text) > INSTRUCTION_CHARACTERS or "\x00" in text:
        raise ValueError(
            f"{setting} has {len(text):,} characters: it goes before every text, so it may have {INSTRUCTION_CHARACTERS:,}, "
            "and no NUL"
        )
    return "" if text.strip().lower() == "none" else text
