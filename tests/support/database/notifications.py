"""What a connection that LISTENs is notified of."""

from __future__ import annotations

import asyncio

import asyncpg

SECONDS = 20.0
END = ("end", "")


class Notifications:
    """The notifications of one listening connection, as (channel, payload), in order."""

    def __init__(self, listener: asyncpg.Connection) -> None:
        self.listener = listener
        self._heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def listen(self, *channels: str) -> None:
        """Listens to these channels from now on."""
        for channel in (*channels, END[0]):
            await self.listener.add_listener(
                channel, lambda _connection, _pid, name, payload: self._heard.put_nowait((name, payload))
            )

    async def next(self) -> tuple[str, str]:
        """Waits for the next one."""
        return await asyncio.wait_for(self._heard.get(), SECONDS)

    async def until_now(self, sender: asyncpg.Connection) -> list[tuple[str, str]]:
        """Those since the last call. They come in the order of commits, so one that `sender` sends now is the last."""
        await sender.execute('notify "end"')
        heard: list[tuple[str, str]] = []
        while (one := await self.next()) != END:
            heard.append(one)
        return heard
