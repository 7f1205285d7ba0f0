"""The circuit breaker before a provider: after a failure there is no call until a pause is over, and then only one.

    closed     every call passes; the first UnavailableError opens the circuit
    open       every call is refused at once, until the pause is over
    half-open  one call, the probe, is under way; all others are refused. Its success closes the circuit, its
               UnavailableError opens it again for twice as long; if it is cancelled, the next caller is the probe

Promise: an outage of a provider costs one call per pause for the whole process, never one per job, and it is
logged twice: when the provider is lost and when it is back. `RejectionError` is an answer: the provider works.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Literal, TypeAlias

import structlog

from providers.ports import Answer, Embedder, LanguageModel, Prompt, RejectionError, UnavailableError, Vectors

State: TypeAlias = Literal["closed", "open"]
OnChange: TypeAlias = Callable[[State, str, float, str], None]
"""Called with the new state, the provider's name, the seconds until it is asked again (0.0 if closed), and what is wrong."""

PROBE_WAIT_SECONDS = 0.5
RETRY_AFTER_SPREAD = 0.1
MAX_RETRY_AFTER_SECONDS = 3_600.0


def log_change(state: State, provider: str, retry_in: float, reason: str) -> None:
    """Write the one log line of a transition: the usual `on_change`."""
    log = structlog.get_logger(__name__)
    if state == "open":
        log.warning("provider_lost", provider=provider, retry_in=round(retry_in, 3), reason=reason)
    else:
        log.info("provider_back", provider=provider)


class Circuit:
    """Lets calls to one provider pass, or refuses them.

    `clock` answers seconds of a monotonic clock. The pause starts at `first` seconds and doubles up to
    `maximum`; each is shortened at random by up to a half, so that the daemons of a fleet do not come back in
    step. A time that the provider names (Retry-After) is never undercut.
    """

    def __init__(
        self,
        provider: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: Random | None = None,
        on_change: OnChange = log_change,
        first: float = 1.0,
        maximum: float = 60.0,
    ) -> None:
        self._provider = provider
        self._clock = clock
        self._rng = rng or Random()
        self._on_change = on_change
        self._first = first
        self._maximum = maximum
        self._pause = first
        self._reason = ""
        self._opened = 0
        self._open = False
        self._until = 0.0
        self._probing = False

    def retry_in(self) -> float:
        """Answer the seconds until a call may pass: 0.0 if one may pass now."""
        if not self._open:
            return 0.0
        if self._probing:
            return PROBE_WAIT_SECONDS
        return max(0.0, self._until - self._clock())

    async def call(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Answer what `ask` answers, or refuse to ask if the circuit is open.

        Every `UnavailableError` that this raises has `retry_in` > 0.
        """
        wait = self.retry_in()
        if wait > 0:
            raise UnavailableError(
                f"not asked, and not for another {wait:.1f} s, since: {self._reason}",
                provider=self._provider,
                retry_in=wait,
                asked=False,
            )
        opened = self._opened
        probe = self._open
        self._probing = probe
        try:
            answer = await ask()
        except UnavailableError as fault:
            self._failed(fault, first_to_tell=opened == self._opened)
            wait = self.retry_in() or PROBE_WAIT_SECONDS
            raise UnavailableError(str(fault), provider=fault.provider, retry_in=wait) from fault
        except RejectionError:
            self._answered(probe)
            raise
        else:
            self._answered(probe)
            return answer
        finally:
            # A probe that was cancelled leaves the circuit half-open, and the next caller is the probe.
            if probe:
                self._probing = False

    def _failed(self, fault: UnavailableError, *, first_to_tell: bool) -> None:
        now = self._clock()
        named = fault.retry_in * (1 + RETRY_AFTER_SPREAD * self._rng.random())
        if not first_to_tell:
            # Of the calls that had begun when the provider failed, one opens the circuit; the others only prolong the pause.
            if self._open:
                self._until = max(self._until, now + named)
            return
        was_open, self._open = self._open, True
        self._probing = False
        self._opened += 1
        self._reason = str(fault)
        self._until = now + max(named, self._pause * self._rng.uniform(0.5, 1.0))
        self._pause = min(self._maximum, self._pause * 2)
        if not was_open:
            self._on_change("open", self._provider, self._until - now, self._reason)

    def _answered(self, probe: bool) -> None:
        # A call that began before the circuit opened proves nothing about the provider now.
        if not probe:
            return
        self._open = False
        self._pause = self._first
        self._on_change("closed", self._provider, 0.0, "")


class CircuitEmbedder:
    """An embedder behind a circuit. Implements `Embedder`."""

    def __init__(self, inner: Embedder, circuit: Circuit) -> None:
        self.name = inner.name
        self.dimensions = inner.dimensions
        self.remote = inner.remote
        self.instructions = inner.instructions
        self._inner = inner
        self._circuit = circuit

    def retry_in(self) -> float:
        return self._circuit.retry_in()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed, see `Embedder.embed`; every `UnavailableError` has `retry_in` > 0."""
        return await self._circuit.call(lambda: self._inner.embed(texts))

    async def close(self) -> None:
        await self._inner.close()


class CircuitLanguageModel:
    """A language model behind a circuit. Implements `LanguageModel`."""

    def __init__(self, inner: LanguageModel, circuit: Circuit) -> None:
        self.name = inner.name
        self._inner = inner
        self._circuit = circuit

    def retry_in(self) -> float:
        return self._circuit.retry_in()

    async def ask(self, prompt: Prompt[Answer]) -> tuple[Answer, int]:
        """Ask, see `LanguageModel.ask`; every `UnavailableError` has `retry_in` > 0."""
        return await self._circuit.call(lambda: self._inner.ask(prompt))

    async def close(self) -> None:
        await self._inner.close()


def retry_after(headers: Mapping[str, str], *, now: float) -> float:
    """Answer the seconds that the reply asks to wait, at most an hour; 0.0 if it does not say.

    `now` is seconds since the epoch, for the date form (RFC 9110, 10.2.3).
    """
    from email.utils import parsedate_to_datetime

    for header, per_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(header)
        if value is None:
            continue
        try:
            seconds = float(value) / per_second
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - now
            except ValueError:
                continue
        if not math.isnan(seconds):
            return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
    return 0.0
