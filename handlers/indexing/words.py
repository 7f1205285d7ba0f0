"""Words of the texts that are indexed, for the lexicon: recall also finds what says the same in other words.

Promise: a word is learnt only in the transaction that writes a row which is found by it. So the word is erased with the last
such row, and a fragment by which no row is found is never learnt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from handlers.shared.ports import AnyConnection, Reader

# Whole words of plain letters: beside a digit, or a letter beyond ASCII, they are parts of something else.
WORD = re.compile(r"(?<![^\W_])[a-z]{3,24}(?![^\W_])")

# Nothing is remembered here of what is known: the database forgets a word whose last row went.
UNKNOWN = "select memoryd.unknown_words($1)"
LEARN = "select memoryd.learn_words($1, $2, $3)"


async def unknown_words(reader: Reader, texts: Iterable[str]) -> Sequence[str]:
    """The words of the texts that the lexicon lacks: mostly none."""
    words = {word for text in texts for word in WORD.findall(text.lower())}
    return [r[0] for r in await reader.fetch(UNKNOWN, sorted(words))] if words else []


async def learn_words(
    connection: AnyConnection, words: Sequence[str], written: Collection[tuple[UUID, int]]
) -> None:
    """Adds those of the words that rows (ids, scopes) of this transaction are found by. The last thing that it writes."""
    if words and written:
        await connection.execute(LEARN, words, [i for i, _ in written], [scope for _, scope in written])
