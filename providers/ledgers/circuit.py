"""A ledger behind a circuit: while it is down it is asked once a pause, not once an item."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from providers.circuit import Circuit, OnChange
from providers.ports import Entrusted, Ledger, Progress, Receipt


class CircuitLedger:
    """Implements `Ledger`; every `Unavailable` has `retry_in` > 0."""

    def __init__(
        self, inner: Ledger, *, clock: Callable[[], float], rng: Random, on_change: OnChange
    ) -> None:
        self._inner = inner
        self._circuit = Circuit(inner.name, clock=clock, rng=rng, on_change=on_change, maximum=300.0)

    @property
    def name(self) -> str:
        """As settings name it."""
        return self._inner.name

    @property
    def keeps_memories(self) -> bool:
        """True if it keeps each anchored memory."""
        return self._inner.keeps_memories

    async def entrust(self, item: Entrusted, progress: Progress) -> Receipt:
        """Have it kept, see `Ledger.entrust`."""
        return await self._circuit.call(lambda: self._inner.entrust(item, progress))

    async def dispute(self, item: Entrusted, receipt: Receipt) -> str | None:
        """Say what differs, see `Ledger.dispute`."""
        return await self._circuit.call(lambda: self._inner.dispute(item, receipt))

    async def close(self) -> None:
        """Close the ledger within."""
        await self._inner.close()
