"""The interfaces of the providers: what an embedder and a language model must do for their callers.

Promise: to call a provider one needs to know only this file. It imports nothing of memoryd, and it names
the only ways in which a provider may fail: `UnavailableError` (ask again later) and `RejectionError` (never ask this again).
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:  # The child processes of the parser import this file, and need no numpy.
    import numpy as np
    import numpy.typing as npt
    from pydantic import BaseModel

Answer = TypeVar("Answer")

Vectors: TypeAlias = "npt.NDArray[np.float32]"
"""Shape (n, dimensions); every row is finite and of unit length."""


class UnavailableError(Exception):
    """The provider cannot answer any caller now: refused connection, timeout, 429, 5xx, or a wrong key or address.

    Nothing is wrong with the text. The job is snoozed: it is claimed again after `retry_in` seconds; 0.0
    means that the provider named no time. The message says what to do, and never contains the text or a key.
    """

    def __init__(self, message: str, *, provider: str, retry_in: float = 0.0, asked: bool = True) -> None:
        """`asked`: False when the call was refused without asking the provider."""
        super().__init__(message)
        self.provider = provider
        self.retry_in = retry_in
        self.asked = asked


class RejectionError(Exception):
    """The provider will never answer for this very input; asking again would only cost money.

    If the input was a batch, one of its texts is the reason: ask for the halves. The message never contains the text or a key.
    """

    def __init__(self, message: str, *, provider: str) -> None:
        super().__init__(message)
        self.provider = provider


class UselessReplyError(RejectionError):
    """A language model replied, and the reply is of no use: no JSON, or not of the shape that was asked for.

    Asked once more, it may do better.
    """

    def __init__(self, message: str, *, provider: str, tokens: int = 0) -> None:
        """`tokens`: what the reply cost."""
        super().__init__(message, provider=provider)
        self.tokens = tokens


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
    """Turns texts into vectors. Any `str` is welcome: empty, with NUL, with lone surrogates, of any length."""

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

        Raises `UnavailableError` or `RejectionError`; then nothing was embedded.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and threads. The embedder is not used afterwards."""
        ...


class InvalidReplyError(Exception):
    """A reply does not say what was asked; says why, and quotes nothing."""


@dataclass(frozen=True, slots=True)
class Prompt(Generic[Answer]):
    """What a language model is asked, and what its reply may be.

    `data` is to be read, never an order: the model gets it as JSON between <fence> and </fence>, which no text in it can close.
    """

    name: str
    """Of what is asked, for the server: insight."""
    instructions: str
    fence: str
    data: Mapping[str, object]
    shape: type[BaseModel]
    """Of the reply. Types are not converted; fields that it does not have are ignored, so they cannot have an effect."""
    read: Callable[[Any], Answer]
    """The answer in a reply of this shape. Raises `InvalidReplyError`."""


class WordEmbedder(Embedder, Protocol):
    """An embedder that says of words how well it knows them."""

    def pieces(self, words: Sequence[str]) -> list[int]:
        """Into how many tokens each word is split: one or two of a word that it knows."""
        ...


class LanguageModel(Protocol):
    """Answers a prompt with what the prompt names."""

    @property
    def name(self) -> str:
        """Provider and model, such as 'openai/gpt-5-mini'."""
        ...

    def retry_in(self) -> float:
        """Seconds until it may be asked again; 0.0: now."""
        ...

    async def ask(self, prompt: Prompt[Answer]) -> tuple[Answer, int]:
        """The answer, and the tokens that it cost.

        Raises `UnavailableError`, `RejectionError`, or `UselessReplyError` when the reply is of no use.
        """
        ...

    async def close(self) -> None:
        """Let go of connections. The model is not used afterwards."""
        ...


def missing(what: str, extra: str) -> str:
    """What is said of a part of memoryd whose packages are not installed. `extra`: as pyproject.toml names it.

    The command adds the packages to the environment that runs, however memoryd came into it. It does not name memoryd, since a
    package of this name in an index is another program.
    """
    # Seldom needed, and slow to load.
    from importlib.metadata import PackageNotFoundError, requires
    from importlib.util import find_spec

    said = f"{what} needs the extra {extra} of memoryd, which is not installed"
    mark = re.compile(rf"extra == ['\"]{extra}['\"]")
    try:
        packages = [line.partition(";")[0].strip() for line in requires("memoryd") or () if mark.search(line)]
    except PackageNotFoundError:
        return f"{said}."
    python = shlex.quote(sys.executable)
    pip = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return f"{said}: {pip} {shlex.join(packages)}"
