"""Words of the texts that pass by, for the lexicon: recall also finds what says the same in other words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from handlers.ports import Reader

WORD = re.compile(r"[a-z]{3,24}")

# Nothing is remembered here of what is known: the database forgets a word whose last row went.
LEARN = "select memoryd.learn_words($1)"


async def learn_words(reader: Reader, texts: Iterable[str]) -> None:
    """Adds the words that are new to the lexicon; a job embeds them."""
    words = {word for text in texts for word in WORD.findall(text.lower())}
    if words:
        await reader.execute(LEARN, sorted(words))
