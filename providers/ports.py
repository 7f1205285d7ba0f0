"""The interfaces of the providers: what an embedder, a language model and a parser must do for their callers.

Promise: to call a provider one needs to know only this file. It imports nothing of memoryd, and it names
the only ways in which a provider may fail: `Unavailable` (ask again later), `Rejected` (never ask this again) and
`Unreadable` (this file cannot be read as it is).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:  # The child processes of the parser import this file, and need no numpy.
    import numpy as np
    import numpy.typing as npt

Vectors: TypeAlias = "npt.NDArray[np.float32]"
"""Shape (n, dimensions); every row is finite and of unit length."""


class Unavailable(Exception):
    """The provider cannot answer any caller now: refused connection, timeout, 429, 5xx, or a wrong key or
    address.

    Nothing is wrong with the text. The job is snoozed: it is claimed again after `retry_in` seconds; 0.0
    means that the provider named no time. The message says what to do, and never contains the text or a key.
    """

    def __init__(self, message: str, *, provider: str, retry_in: float = 0.0, asked: bool = True) -> None:
        """`asked`: False when the call was refused without asking the provider."""
        super().__init__(message)
        self.provider = provider
        self.retry_in = retry_in
        self.asked = asked


class Rejected(Exception):
    """The provider will never answer for this very input; asking again would only cost money.

    If the input was a batch, one of its texts is the reason: ask for the halves. The message never contains the
    text or a key.
    """

    def __init__(self, message: str, *, provider: str) -> None:
        super().__init__(message)
        self.provider = provider


class Useless(Rejected):
    """A language model replied, and the reply is of no use: no JSON, or not of the shape that was asked for.

    Asked once more, it may do better.
    """

    def __init__(self, message: str, *, provider: str, tokens: int = 0) -> None:
        """`tokens`: what the reply cost."""
        super().__init__(message, provider=provider)
        self.tokens = tokens


class Unreadable(Exception):
    """This file can never be read as it is; parsing it again would fail again.

    The message is for the person who dropped the file: it says what is wrong with it and what to do. It never
    contains what is in the file.
    """


@dataclass(frozen=True, slots=True)
class Instructions:
    """What stands before a text that is embedded, for a model that was trained so. A part of what the model is: vectors
    that were made with others do not compare.
    """

    query: str = ""
    """Before a question."""
    document: str = ""
    """Before what a question may find."""


class Embedder(Protocol):
    """Turns texts into vectors. Any `str` is welcome: empty, with NUL, with lone surrogates, of any
    length."""

    @property
    def name(self) -> str:
        """Provider and model, such as 'local/wordllama-256' or 'openai/text-embedding-3-small'."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    @property
    def remote(self) -> bool:
        """True if a call costs money or a network: its answers are worth caching."""
        ...

    @property
    def instructions(self) -> Instructions:
        """What its callers put before each text."""
        ...

    def retry_in(self) -> float:
        """Answer the seconds until a call may succeed again: 0.0 if one may be tried now."""
        ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Answer one unit vector for each text, in the order of the texts, shape (len(texts), dimensions).

        Raises `Unavailable` or `Rejected`; then nothing was embedded.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and threads. The embedder is not used afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class WrittenInsight:
    """What a language model makes of a cluster of memories.

    `causal` has (cause, effect, strength): two distinct indexes into the memories that were given, and from 0 to 1
    how sure the model is.
    """

    text: str
    recommendation: str | None
    causal: tuple[tuple[int, int, float], ...]
    tokens: int = field(default=0, compare=False)
    """What the reply cost."""


@dataclass(frozen=True, slots=True)
class Situations:
    """What a language model says of where chunks stand in their document."""

    sentences: tuple[str, ...]
    """One for each chunk that was given, of one line; empty where the model has nothing to say."""
    tokens: int = field(default=0, compare=False)
    """What the reply cost."""


KINDS_OF_NAMES = ("user", "person", "animal", "organisation", "project", "place", "thing")
"""What a name may be of; user: the user's own name."""


@dataclass(frozen=True, slots=True)
class NamedThing:
    """Something or somebody that a message calls by name."""

    name: str
    """Of one line, not empty, as it stands in the message."""
    kind: str
    """One of `KINDS_OF_NAMES`."""


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """What is remembered of a user, as a language model is shown it."""

    id: str
    """Short, of this stretch alone: k1, k2, ..."""
    text: str
    said: date
    until: date | None
    """The last day on which it holds, if that is known."""


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message, as a language model is shown it."""

    id: str
    """Short, of this stretch alone: m1, m2, ..."""
    by: str
    """user, assistant, or the name of a speaker."""
    day: date
    text: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """The newest part of a conversation, and what is remembered of its user."""

    memories: tuple[ShownMemory, ...]
    before: tuple[ShownMessage, ...]
    messages: tuple[ShownMessage, ...]


@dataclass(frozen=True, slots=True)
class Added:
    """A fact of one line; `evidence`: ids of messages, as the model gave them."""

    text: str
    about: str | None
    valid_from: date | None
    valid_to: date | None
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Superseded:
    """A fact in place of the memory of this id, as the model gave it."""

    id: str
    text: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The memory of this id, as the model gave it, is not true any more."""

    id: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operations:
    """What a language model says that a stretch changes. Their shapes are right; whether their ids are is not known."""

    add: tuple[Added, ...] = ()
    supersede: tuple[Superseded, ...] = ()
    end: tuple[Ended, ...] = ()
    names: tuple[NamedThing, ...] = ()
    invalid: tuple[str, ...] = ()
    """The kinds of those that were left out, since their shape was wrong."""
    tokens: int = field(default=0, compare=False)
    """What the reply cost."""


class WordEmbedder(Embedder, Protocol):
    """An embedder that says of words how well it knows them."""

    def pieces(self, words: Sequence[str]) -> list[int]:
        """Into how many tokens each word is split: one or two of a word that it knows."""
        ...


class LanguageModel(Protocol):
    """Writes the insight of a dream, says where the chunks of a document stand, and reads conversations."""

    @property
    def name(self) -> str:
        """Provider and model, such as 'openai/gpt-5-mini'."""
        ...

    def retry_in(self) -> float:
        """Seconds until it may be asked again; 0.0: now."""
        ...

    async def insight(self, memories: Sequence[str], draft: str) -> WrittenInsight:
        """Say in one or two sentences what the memories teach; `draft` is the sentence that a rule wrote.

        Raises `Unavailable`, `Rejected`, or `Useless` when the answer is of no use: the draft then stands.
        """
        ...

    async def situate(self, document: str, chunks: Sequence[str]) -> Situations:
        """Say of each chunk, in one sentence, where in the document it stands and what it is about.

        `document` is what is to be known of the document: its title, and how it begins. Raises as `insight` does.
        """
        ...

    async def facts(self, stretch: Stretch) -> Operations:
        """Say what a stretch of conversation changes in what is remembered. Raises as `insight` does."""
        ...

    async def close(self) -> None:
        """Let go of connections. The model is not used afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file says, as Markdown."""

    text: str
    """Not blank. Without NUL and lone surrogates; lines end with a line feed only."""
    title: str | None
    """Of one line, at most 200 characters. None where neither the file nor its name has one."""
    document_type: str
    """One of 'markdown', 'text', 'html', 'pdf', 'docx', 'pptx', 'xlsx', 'csv', 'json', 'email'."""
    metadata: Mapping[str, Any]
    """JSON values: the front matter of Markdown, the headers of an e-mail, author and pages of a PDF, names of sheets."""


class Parser(Protocol):
    """Reads files."""

    async def parse(self, content: bytes, name: str) -> Parsed:
        """Read the bytes of one file, whatever is in them.

        `name` is the file's name: a hint at its format, where the bytes themselves do not tell it, and the
        title, where they have none. Raises `Unreadable`.
        """
        ...

    async def close(self) -> None:
        """Let go of processes. The parser is not used afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class Entrusted:
    """What a ledger is asked to keep: an anchored memory, or a checkpoint of the trail."""

    key: str
    """Names it for ever: the id of the anchor, or 'checkpoint/' and the number of leaves. The same key is the same content."""
    category: str
    """'milestone', 'decision', 'incident' or 'checkpoint'."""
    agent_id: str
    """Whose memory it is; '' of a checkpoint."""
    content_hash: bytes
    """32 bytes: the SHA-256 that `cid` is made of."""
    cid: str
    """CIDv1 (raw, sha2-256, base32) of the bytes."""
    payload: bytes | None
    """The bytes themselves, where they may leave the machine: a checkpoint's always, a memory's where a setting says so."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a ledger says of something that it has kept."""

    reference: str
    """Where it is found there: a transaction's hash, a CID, a serial number. Of one line."""
    proof: bytes | None
    """What convinces somebody without asking the ledger: a timestamp token. None where there is none."""
    final: bool
    """False while the ledger may still take it back (a transaction without enough confirmations): ask again."""


class Progress(Protocol):
    """What earlier attempts at the same thing have reached, so that nothing is done twice."""

    def reached(self, step: str) -> str | None:
        """What was kept of this step; None if it was not reached."""
        ...

    async def keep(self, step: str, value: str) -> None:
        """Keep this. It is stored for good when this returns."""
        ...


class Ledger(Protocol):
    """Somebody else who keeps what the trail says, so that its owner cannot rewrite it unseen."""

    @property
    def name(self) -> str:
        """As settings name it: 'rfc3161', 'ipfs', 'evm'."""
        ...

    @property
    def keeps_memories(self) -> bool:
        """True if it keeps each anchored memory; False if it keeps checkpoints only."""
        ...

    async def entrust(self, item: Entrusted, progress: Progress) -> Receipt:
        """Have it kept, or find that it was. Called again with the same key after a crash, or a receipt that was not final.

        Raises `Unavailable` or `Rejected`.
        """
        ...

    async def dispute(self, item: Entrusted, receipt: Receipt) -> str | None:
        """Answer None if it has what the receipt says, else a sentence that says what differs. Raises `Unavailable`."""
        ...

    async def close(self) -> None:
        """Let go of connections. The ledger is not used afterwards."""
        ...
