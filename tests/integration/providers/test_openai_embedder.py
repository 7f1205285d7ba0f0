"""The embedder of the OpenAI protocol against a real server, well and unwell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from traceback import format_exception

import numpy as np
import pytest

from providers.build import build_embedder
from providers.openai_embedder import OpenAIEmbedder
from providers.ports import Embedder, RejectionError, UnavailableError
from tests.support.services.openai_server import (
    DROP,
    GARBAGE,
    HANG,
    NOT_A_NUMBER,
    POISON,
    WRONG_COUNT,
    WRONG_DIMENSIONS,
    WRONG_INDEXES,
    Fault,
    OpenAIServer,
    vector_of,
)

KEY = "sk-very-secret"
SECRET_TEXT = "the launch code is 0000"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(dimensions=8) as server:
        yield server


def embedder_of(server: OpenAIServer, **options: object) -> OpenAIEmbedder:
    arguments = {
        "model": "tiny",
        "dimensions": 8,
        "base_url": server.base_url,
        "api_key": KEY,
        "timeout_seconds": 20.0,
        **options,
    }
    return OpenAIEmbedder(**arguments)  # type: ignore[arg-type]


@pytest.fixture
async def embedder(server: OpenAIServer) -> AsyncIterator[OpenAIEmbedder]:
    embedder = embedder_of(server)
    yield embedder
    await embedder.close()


async def failure(embedder: Embedder, texts: list[str]) -> UnavailableError | RejectionError:
    with pytest.raises((UnavailableError, RejectionError)) as caught:
        await embedder.embed(texts)
    fault = caught.value
    assert isinstance(fault, UnavailableError | RejectionError)
    return fault


@pytest.mark.parametrize("base64_known", [True, False])
async def test_embeddings_are_unit_vectors_in_the_order_of_the_texts(base64_known: bool) -> None:
    texts = [f"text {number}" for number in range(20)]
    with OpenAIServer(dimensions=8, base64_known=base64_known) as server:
        embedder = embedder_of(server)
        vectors = await embedder.embed(texts)
        await embedder.close()

    assert (embedder.name, embedder.dimensions, embedder.remote) == ("openai/tiny", 8, True)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [vector_of(text, 8) for text in texts], atol=1e-6)
    assert server.keys == [KEY]


async def test_equal_texts_are_sent_once_and_blank_ones_never(
    server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    vectors = await embedder.embed(["a", "", "b", " \n", "a", "\x00"])

    assert server.texts == ["a", "b"]
    np.testing.assert_array_equal(vectors[0], vectors[4])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert (await embedder.embed(["", ""])).shape == (2, 8)
    assert (await embedder.embed([])).shape == (0, 8)
    assert len(server.requests) == 1


async def test_requests_are_bounded_in_texts_and_in_characters(server: OpenAIServer) -> None:
    embedder = embedder_of(server, batch=10)
    short = [f"text {number}" for number in range(25)]
    long = [f"{number} " + "long " * 4000 for number in range(20)]
    vectors = await embedder.embed([*short, *long])
    await embedder.close()

    sent = [request["input"] for request in server.requests]
    assert [text for request in sent for text in request] == [*short, *long]
    assert all(len(request) <= 10 and sum(map(len, request)) <= 250_000 for request in sent)
    np.testing.assert_allclose(vectors[-1], vector_of(long[-1], 8), atol=1e-6)


async def test_a_very_long_text_is_shortened_and_a_broken_one_repaired(
    server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    vectors = await embedder.embed(["x" * 5_000_000, "a\ud800b\x00c"])

    assert server.texts == ["x" * 24_000, "a\ufffdb c"]
    assert np.isfinite(vectors).all()


async def test_dimensions_are_sent_to_models_that_support_them(server: OpenAIServer) -> None:
    for options in (
        {"model": "text-embedding-3-small", "dimensions": 16},
        {"model": "tiny"},
        {"model": "tiny", "dimensions": 4, "send_dimensions": True},
    ):
        embedder = embedder_of(server, **options)
        await embedder.embed(["a"])
        await embedder.close()

    assert [request.get("dimensions") for request in server.requests] == [16, None, 4]


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
async def test_a_temporary_fault_is_unavailable_and_not_retried(
    server: OpenAIServer, embedder: OpenAIEmbedder, status: int
) -> None:
    server.script(Fault.status(status))
    fault = await failure(embedder, ["a", "b"])

    assert isinstance(fault, UnavailableError)
    assert (fault.provider, fault.retry_in) == ("openai/tiny", 0.0)
    assert str(status) in str(fault)
    assert len(server.requests) == 1
    assert len(await embedder.embed(["a", "b"])) == 2


@pytest.mark.parametrize(
    ("header", "expected"),
    [("7", 7.0), ("0.25", 0.25), ("86400", 3600.0), ("-3", 0.0), ("soon", 0.0), ("nan", 0.0)],
)
async def test_retry_after_is_passed_on(
    server: OpenAIServer, embedder: OpenAIEmbedder, header: str, expected: float
) -> None:
    server.script(Fault.status(429, retry_after=header))
    fault = await failure(embedder, ["a"])

    assert isinstance(fault, UnavailableError)
    assert fault.retry_in == expected


async def test_retry_after_may_be_a_date(server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    server.script(
        Fault.status(
            503, retry_after=format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)
        ),
        Fault.status(
            503, retry_after=format_datetime(datetime.now(UTC) - timedelta(minutes=10), usegmt=True)
        ),
    )
    faults = [await failure(embedder, ["a"]) for _ in range(2)]

    assert [isinstance(fault, UnavailableError) and round(fault.retry_in, -2) for fault in faults] == [600, 0]


@pytest.mark.parametrize(
    ("fault", "hint"),
    [
        (Fault.status(401, code="invalid_api_key"), "MEMORYD_OPENAI_API_KEY"),
        (Fault.status(402), "MEMORYD_OPENAI_API_KEY"),
        (Fault.status(403), "MEMORYD_EMBEDDER"),
        (Fault.status(404, code="model_not_found"), "MEMORYD_EMBEDDER"),
        (Fault.status(405), "MEMORYD_OPENAI_BASE_URL"),
        (Fault.status(407), "MEMORYD_OPENAI_BASE_URL"),
        (Fault.status(400, param="model"), "MEMORYD_EMBEDDER"),
        (Fault.status(400, param="dimensions"), "MEMORYD_EMBEDDING_DIMENSIONS"),
        (Fault.status(429, code="insufficient_quota"), "billing"),
        (GARBAGE, "MEMORYD_OPENAI_BASE_URL"),
        (WRONG_DIMENSIONS, "9 dimensions, not 8: check MEMORYD_EMBEDDER and MEMORYD_EMBEDDING_DIMENSIONS"),
        (WRONG_COUNT, "1 vectors came for 2 texts"),
        (WRONG_INDEXES, "wrongly numbered"),
        (NOT_A_NUMBER, "MEMORYD_OPENAI_BASE_URL"),
    ],
    ids=lambda value: f"{value.kind}{value.code or ''}" if isinstance(value, Fault) else "",
)
async def test_a_wrong_setting_or_reply_is_unavailable_and_names_the_setting(
    server: OpenAIServer, embedder: OpenAIEmbedder, fault: Fault, hint: str
) -> None:
    server.script(fault)
    raised = await failure(embedder, ["a", "b"])

    assert isinstance(raised, UnavailableError)
    assert hint in str(raised)


@pytest.mark.parametrize("status", [400, 413, 415, 422])
async def test_a_refused_input_is_rejected(
    server: OpenAIServer, embedder: OpenAIEmbedder, status: int
) -> None:
    server.script(Fault.status(status))
    fault = await failure(embedder, ["a", "b"])

    assert isinstance(fault, RejectionError)
    assert fault.provider == "openai/tiny"
    assert len(server.requests) == 1


async def test_a_refused_text_rejects_its_batch_and_no_other(embedder: OpenAIEmbedder) -> None:
    assert isinstance(await failure(embedder, ["good", f"bad {POISON}"]), RejectionError)
    assert isinstance(await failure(embedder, [f"bad {POISON}"]), RejectionError)
    assert len(await embedder.embed(["good"])) == 1


@pytest.mark.parametrize(("max_bytes", "tries"), [(8_000, 2), (2_000, 3)])
async def test_a_text_with_too_many_tokens_is_cut_shorter(max_bytes: int, tries: int) -> None:
    # Two bytes a character, at odd places: a cut through the middle of one must not break it.
    text = "x" + "é" * 50_000
    with OpenAIServer(dimensions=8, max_bytes=max_bytes) as server:
        embedder = embedder_of(server)
        [vector] = await embedder.embed([text])
        await embedder.close()

    assert len(server.texts) == tries
    assert all(text.startswith(tried) for tried in server.texts)
    np.testing.assert_allclose(vector, vector_of(server.texts[-1], 8), atol=1e-6)


async def test_no_answer_in_time_is_unavailable(server: OpenAIServer) -> None:
    embedder = embedder_of(server, timeout_seconds=0.1)
    server.script(HANG)
    fault = await failure(embedder, ["a"])
    server.heal()

    assert isinstance(fault, UnavailableError)
    assert "no answer within 0.1 s" in str(fault)
    await embedder.close()


async def test_a_cancelled_call_is_cancelled_and_not_a_fault(
    server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    server.script(HANG)
    call = asyncio.create_task(embedder.embed(["a"]))
    await asyncio.to_thread(server.hanging.wait)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    server.heal()

    assert len(await embedder.embed(["a"])) == 1


async def test_recovers_when_the_server_breaks_off_or_restarts(
    server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    await embedder.embed(["a"])
    server.script(DROP)
    assert isinstance(await failure(embedder, ["a"]), UnavailableError)

    server.stop()
    fault = await failure(embedder, ["a"])
    assert isinstance(fault, UnavailableError)
    assert "MEMORYD_OPENAI_BASE_URL" in str(fault)

    server.start()
    assert len(await embedder.embed(["a"])) == 1


@pytest.mark.parametrize(
    "fault", [Fault.status(400), Fault.status(401, code="no such key: " + KEY), Fault.status(500), GARBAGE]
)
async def test_errors_hold_neither_the_text_nor_the_key(
    server: OpenAIServer, embedder: OpenAIEmbedder, fault: Fault
) -> None:
    server.script(fault)
    raised = await failure(embedder, [SECRET_TEXT])
    printed = "".join(format_exception(raised))

    assert "openai/tiny" in printed
    assert SECRET_TEXT not in printed
    assert KEY not in printed


async def test_a_local_server_needs_no_key(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    embedder = embedder_of(server, api_key="")
    await embedder.embed(["a"])
    await embedder.close()

    assert KEY not in server.keys
    assert len(server.keys) == 1


def build(name: str, **options: object) -> Embedder:
    arguments = {
        "dimensions": None,
        "base_url": None,
        "api_key": KEY,
        "timeout_seconds": 20.0,
        "on_circuit_change": lambda *_: None,
        **options,
    }
    return build_embedder(name, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "wanted", "resolved"),
    [
        ("openai/text-embedding-3-small", None, 1536),
        ("openai/text-embedding-3-small", 512, 512),
        ("openai/text-embedding-3-large", None, 3072),
        ("openai/text-embedding-ada-002", None, 1536),
        ("openai/BAAI/bge-m3", 1024, 1024),
        ("openai/giant", 16_000, 16_000),
    ],
)
async def test_build_knows_the_dimensions_of_the_usual_models(
    name: str, wanted: int | None, resolved: int
) -> None:
    embedder = build(name, dimensions=wanted)

    assert (embedder.name, embedder.dimensions, embedder.remote) == (name, resolved, True)
    await embedder.close()


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("openai/unknown", {}, "MEMORYD_EMBEDDING_DIMENSIONS"),
        ("openai/unknown", {"dimensions": 0}, "MEMORYD_EMBEDDING_DIMENSIONS is 0"),
        ("openai/unknown", {"dimensions": 16_001}, "from 1 to 16000"),
        ("openai/text-embedding-3-small", {"dimensions": 3072}, "MEMORYD_EMBEDDING_DIMENSIONS to 1536"),
        ("openai/text-embedding-ada-002", {"dimensions": 512}, "MEMORYD_EMBEDDING_DIMENSIONS to 1536"),
        ("openai/text-embedding-3-small", {"api_key": ""}, "MEMORYD_OPENAI_API_KEY"),
        ("openai/", {}, "local/wordllama-256, openai/text-embedding-3-small"),
        ("text-embedding-3-small", {}, "local/wordllama-256, openai/text-embedding-3-small"),
        ("local/other", {}, "local/wordllama-256, openai/text-embedding-3-small"),
        ("", {}, "local/wordllama-256, openai/text-embedding-3-small"),
    ],
)
def test_build_refuses_what_cannot_work_and_names_the_setting(
    name: str, options: dict[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        build(name, **options)


async def test_build_puts_a_circuit_before_the_server(server: OpenAIServer) -> None:
    changes: list[tuple[str, str]] = []
    embedder = build(
        "openai/tiny",
        dimensions=8,
        base_url=server.base_url,
        on_circuit_change=lambda state, provider, *_: changes.append((state, provider)),
    )
    server.always = Fault.status(503, retry_after="600")
    faults = [await failure(embedder, ["a"]) for _ in range(5)]
    await embedder.close()

    assert all(isinstance(fault, UnavailableError) and 590 <= fault.retry_in <= 660 for fault in faults)
    assert len(server.requests) == 1
    assert changes == [("open", "openai/tiny")]
