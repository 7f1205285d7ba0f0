"""Words of the texts that pass by, for the lexicon: recall also finds what says the same in other words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from handlers.ports import Reader

WORD = re.compile(r"[a-z]{3,24}")
MOST_KNOWN = 200_000

LEARN = "select memoryd.learn_words($1)"


class Words:
    """Learns each word once in the life of this process."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: set[str] = set()

    async def learn(self, texts: Iterable[str]) -> None:
        """Adds the words that are new to the lexicon; a job embeds them."""
        new = {word for text in texts for word in WORD.findall(text.lower())} - self._known
        if new:
            await self._reader.execute(LEARN, sorted(new))
            if len(self._known) > MOST_KNOWN:
                self._known.clear()
            self._known |= new
