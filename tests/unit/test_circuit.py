"""The circuit before a provider: when it asks, when it refuses, and what it tells of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import numpy as np
import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from providers.circuit import Circuit, CircuitEmbedder, CircuitLanguageModel
from providers.ports import Answer, Instructions, Prompt, RejectionError, UnavailableError, Vectors

Change = tuple[str, str, float, str]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Provider:
    """An embedder and a language model whose next answers a test sets; without any it is well."""

    name = "test/provider"
    dimensions = 2
    remote = True
    instructions = Instructions()

    def __init__(self) -> None:
        self.calls = 0
        self.closed = False
        self.answers: list[Callable[[], Awaitable[None]]] = []

    def retry_in(self) -> float:
        return 0.0

    async def embed(self, texts: Sequence[str]) -> Vectors:
        await self._answer()
        return np.tile(np.array([1, 0], dtype=np.float32), (len(texts), 1))

    async def ask(self, prompt: Prompt[Answer]) -> tuple[Answer, int]:
        await self._answer()
        return prompt.read(prompt.data), 0

    async def close(self) -> None:
        self.closed = True

    async def _answer(self) -> None:
        self.calls += 1
        if self.answers:
            await self.answers.pop(0)()

    def fails(self, times: int = 1, retry_in: float = 0.0) -> None:
        async def fail() -> None:
            raise UnavailableError("the provider is down", provider=self.name, retry_in=retry_in)

        self.answers += [fail] * times

    def rejects(self) -> None:
        async def reject() -> None:
            raise RejectionError("the provider refuses this input", provider=self.name)

        self.answers.append(reject)

    def waits(self, gate: asyncio.Event, *, then_fails: bool = False, retry_in: float = 0.0) -> asyncio.Event:
        """Let the next call wait for the gate; the event answered is set once it does."""
        reached = asyncio.Event()

        async def wait() -> None:
            reached.set()
            await gate.wait()
            if then_fails:
                raise UnavailableError("the provider is down", provider=self.name, retry_in=retry_in)

        self.answers.append(wait)
        return reached


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def changes() -> list[Change]:
    return []


@pytest.fixture
def embedder(provider: Provider, clock: Clock, changes: list[Change]) -> CircuitEmbedder:
    circuit = Circuit(
        provider.name, clock=clock, rng=Random(7), on_change=lambda *change: changes.append(change)
    )
    return CircuitEmbedder(provider, circuit)


async def refusal(embedder: CircuitEmbedder) -> UnavailableError:
    with pytest.raises(UnavailableError) as caught:
        await embedder.embed(["a"])
    return caught.value


async def test_a_closed_circuit_passes_calls_and_names_through(
    embedder: CircuitEmbedder, provider: Provider
) -> None:
    vectors = await embedder.embed(["a", "b"])
    await embedder.close()

    assert vectors.shape == (2, 2)
    assert (embedder.name, embedder.dimensions, embedder.remote) == ("test/provider", 2, True)
    assert embedder.retry_in() == 0
    assert provider.closed


async def test_after_a_failure_the_provider_is_not_called_until_the_pause_is_over(
    embedder: CircuitEmbedder, provider: Provider, clock: Clock
) -> None:
    provider.fails()
    first = await refusal(embedder)
    second = await refusal(embedder)

    assert provider.calls == 1
    assert 0.5 <= first.retry_in <= 1.0
    assert second.retry_in == pytest.approx(embedder.retry_in()) == pytest.approx(first.retry_in)
    assert second.provider == "test/provider"
    assert "the provider is down" in str(second)

    clock.now += first.retry_in
    assert embedder.retry_in() == 0
    assert len(await embedder.embed(["a"])) == 1
    assert provider.calls == 2


async def test_pauses_double_up_to_the_maximum_and_start_again_after_a_success(
    embedder: CircuitEmbedder, provider: Provider, clock: Clock
) -> None:
    provider.fails(times=9)
    pauses = []
    for _ in range(9):
        pauses.append((await refusal(embedder)).retry_in)
        clock.now += pauses[-1]
    await embedder.embed(["a"])
    provider.fails()
    pauses.append((await refusal(embedder)).retry_in)

    ceilings = [1, 2, 4, 8, 16, 32, 60, 60, 60, 1]
    assert all(top / 2 <= pause <= top for pause, top in zip(pauses, ceilings, strict=True))
    assert len({pause / top for pause, top in zip(pauses, ceilings, strict=True)}) == len(pauses)


async def test_the_pause_is_at_least_the_providers_retry_after(
    embedder: CircuitEmbedder, provider: Provider
) -> None:
    provider.fails(retry_in=90.0)

    assert 90.0 <= (await refusal(embedder)).retry_in <= 99.0
    assert 90.0 <= embedder.retry_in() <= 99.0


async def test_only_one_call_probes(embedder: CircuitEmbedder, provider: Provider, clock: Clock) -> None:
    provider.fails()
    clock.now += (await refusal(embedder)).retry_in
    gate = asyncio.Event()
    reached = provider.waits(gate)
    probe = asyncio.create_task(embedder.embed(["probe"]))
    await reached.wait()

    refused = [await refusal(embedder) for _ in range(3)]
    gate.set()
    answer = await probe

    assert provider.calls == 2
    assert all(0 < fault.retry_in <= 1 for fault in refused)
    assert len(answer) == 1
    assert len(await embedder.embed(["a"])) == 1


async def test_a_cancelled_probe_leaves_its_place_to_the_next_call(
    embedder: CircuitEmbedder, provider: Provider, clock: Clock, changes: list[Change]
) -> None:
    provider.fails()
    clock.now += (await refusal(embedder)).retry_in
    reached = provider.waits(asyncio.Event())
    probe = asyncio.create_task(embedder.embed(["probe"]))
    await reached.wait()
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe

    assert embedder.retry_in() == 0
    assert len(changes) == 1
    assert len(await embedder.embed(["a"])) == 1


async def test_opening_and_closing_are_each_reported_once(
    embedder: CircuitEmbedder, provider: Provider, clock: Clock, changes: list[Change]
) -> None:
    provider.fails(times=3)
    first = await refusal(embedder)
    clock.now += first.retry_in
    for _ in range(2):
        clock.now += (await refusal(embedder)).retry_in
    await embedder.embed(["a"])
    await embedder.embed(["a"])

    assert changes == [
        ("open", "test/provider", pytest.approx(first.retry_in), str(first)),
        ("closed", "test/provider", 0.0, ""),
    ]


async def test_one_of_many_concurrent_failures_opens_the_circuit(
    embedder: CircuitEmbedder, provider: Provider, clock: Clock, changes: list[Change]
) -> None:
    gate = asyncio.Event()
    reached = [provider.waits(gate, then_fails=True, retry_in=wait) for wait in (0.0, 0.0, 20.0)]
    calls = [asyncio.create_task(embedder.embed(["a"])) for _ in reached]
    for event in reached:
        await event.wait()
    gate.set()
    faults = await asyncio.gather(*calls, return_exceptions=True)

    assert all(isinstance(fault, UnavailableError) and fault.retry_in > 0 for fault in faults)
    assert len(changes) == 1
    assert 20 <= embedder.retry_in() <= 22, "the longest time that any of them was told counts"

    clock.now += embedder.retry_in()
    provider.fails()
    assert (await refusal(embedder)).retry_in <= 2.0, "three failures at once are one step of the pause"


async def test_a_late_failure_of_an_old_call_does_not_open_the_circuit_again(
    embedder: CircuitEmbedder, provider: Provider, clock: Clock, changes: list[Change]
) -> None:
    gate = asyncio.Event()
    reached = provider.waits(gate, then_fails=True)
    old = asyncio.create_task(embedder.embed(["old"]))
    await reached.wait()
    provider.fails()
    clock.now += (await refusal(embedder)).retry_in
    await embedder.embed(["probe"])
    gate.set()
    with pytest.raises(UnavailableError) as caught:
        await old

    assert caught.value.retry_in > 0
    assert embedder.retry_in() == 0
    assert [state for state, *_ in changes] == ["open", "closed"]


async def test_a_late_success_of_an_old_call_does_not_close_the_circuit(
    embedder: CircuitEmbedder, provider: Provider, changes: list[Change]
) -> None:
    gate = asyncio.Event()
    reached = provider.waits(gate)
    old = asyncio.create_task(embedder.embed(["old"]))
    await reached.wait()
    provider.fails()
    await refusal(embedder)
    gate.set()

    assert len(await old) == 1
    assert embedder.retry_in() > 0
    assert [state for state, *_ in changes] == ["open"]


async def test_a_rejected_text_does_not_open_the_circuit(
    embedder: CircuitEmbedder, provider: Provider, changes: list[Change]
) -> None:
    provider.rejects()
    with pytest.raises(RejectionError):
        await embedder.embed(["bad"])

    assert len(await embedder.embed(["good"])) == 1
    assert changes == []


async def test_a_rejected_probe_closes_the_circuit(
    embedder: CircuitEmbedder, provider: Provider, clock: Clock, changes: list[Change]
) -> None:
    provider.fails()
    clock.now += (await refusal(embedder)).retry_in
    provider.rejects()
    with pytest.raises(RejectionError):
        await embedder.embed(["bad"])

    assert embedder.retry_in() == 0
    assert [state for state, *_ in changes] == ["open", "closed"]


async def test_a_circuit_guards_a_language_model_too(
    provider: Provider, clock: Clock, changes: list[Change]
) -> None:
    circuit = Circuit(
        provider.name, clock=clock, rng=Random(7), on_change=lambda *change: changes.append(change)
    )
    model = CircuitLanguageModel(provider, circuit)
    prompt = Prompt("any", "Count.", "data", {"a": 1}, BaseModel, len)
    provider.fails()
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await model.ask(prompt)
    assert provider.calls == 1

    clock.now += model.retry_in()
    assert await model.ask(prompt) == (1, 0)
    assert [state for state, *_ in changes] == ["open", "closed"]
    await model.close()
    assert provider.closed


async def test_an_outage_is_two_log_lines(provider: Provider, clock: Clock) -> None:
    embedder = CircuitEmbedder(provider, Circuit(provider.name, clock=clock, rng=Random(7)))
    provider.fails(times=3, retry_in=30.0)
    with capture_logs() as lines:
        for _ in range(3):
            await refusal(embedder)
            clock.now += embedder.retry_in()
        await embedder.embed(["a"])

    assert [(line["event"], line["log_level"], line["provider"]) for line in lines] == [
        ("provider_lost", "warning", "test/provider"),
        ("provider_back", "info", "test/provider"),
    ]
    assert lines[0]["reason"]
    assert 30 <= lines[0]["retry_in"] <= 33
