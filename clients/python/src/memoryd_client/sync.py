"""The same classes without async: each call is made by an event loop in a thread of its own, one for the process.

They may be used by many threads at once, and after a fork. Arguments, results and errors are those of the async classes.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Mapping
from types import FrameType, TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

import memoryd_client as aio
from memoryd_client import chat as aio_chat
from memoryd_client._database import AnyDatabase

__all__ = ["ChatMemory", "Database", "Executor", "Knowledge", "Memory"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class _Loop:
    """The event loop of this process, in a thread that ends with it."""

    def __init__(self) -> None:
        self.start_again()

    def start_again(self) -> None:
        """Also after a fork, in the child, which has not got the thread."""
        self._lock = threading.RLock()  # a signal's handler may come while its thread has it
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Waits for the end of `work`. An exception in the waiting thread, such as KeyboardInterrupt, cancels it."""
        loop = self.started()
        try:
            inside: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            inside = None
        if inside is loop:
            work.close()
            raise RuntimeError("This would wait for itself: in async code use the classes of memoryd_client.")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def wait(self, work: Coroutine[Any, Any, R]) -> R:
        """The same for async code in any event loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.started()))

    def started(self) -> asyncio.AbstractEventLoop:
        """The loop, which runs from the first call on."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="memoryd-client", daemon=True).start()
            return self._loop

    def soon(self, work: Callable[[], None]) -> None:
        """Calls `work` in the loop, without waiting for it."""
        self.started().call_soon_threadsafe(work)


_LOOP = _Loop()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_LOOP.start_again)


def _waits(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return _LOOP.run(method(self._async, *args, **kwargs))

    return call


def _constructs(
    of: Callable[P, object],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Makes a constructor that takes what that of an async class takes."""

    def made(_empty: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        @functools.wraps(of.__init__)
        def construct(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
            self._async = of(*args, **kwargs)

        return construct

    return made


class _Closing:
    """Wraps an async object that has to be closed."""

    _async: Any

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections, if they were opened here."""
        _LOOP.run(self._async.close())


class Database(_Closing, AnyDatabase):
    """As memoryd_client.Database."""

    @_constructs(aio.Database)
    def __init__(self) -> None: ...


class Memory(_Closing):
    """As memoryd_client.Memory."""

    @_constructs(aio.Memory)
    def __init__(self) -> None: ...

    remember = _waits(aio.Memory.remember)
    recall = _waits(aio.Memory.recall)
    context = _waits(aio.Memory.context)
    feedback = _waits(aio.Memory.feedback)
    supersede = _waits(aio.Memory.supersede)
    as_of = _waits(aio.Memory.as_of)
    forget = _waits(aio.Memory.forget)
    index_state = _waits(aio.Memory.index_state)
    wait_indexed = _waits(aio.Memory.wait_indexed)


class Knowledge(_Closing):
    """As memoryd_client.Knowledge."""

    @_constructs(aio.Knowledge)
    def __init__(self) -> None: ...

    note = _waits(aio.Knowledge.note)
    recall = _waits(aio.Knowledge.recall)
    decisions = _waits(aio.Knowledge.decisions)
    decision_rates = _waits(aio.Knowledge.decision_rates)
    resolve = _waits(aio.Knowledge.resolve)
    touch = _waits(aio.Knowledge.touch)


class ChatMemory(_Closing):
    """As memoryd_client.ChatMemory."""

    @_constructs(aio.ChatMemory)
    def __init__(self) -> None: ...

    prompt = _waits(aio.ChatMemory.prompt)
    add_user_message = _waits(aio.ChatMemory.add_user_message)
    add_ai_message = _waits(aio.ChatMemory.add_ai_message)
    add_system_message = _waits(aio.ChatMemory.add_system_message)
    add_messages = _waits(aio.ChatMemory.add_messages)
    begin_session = _waits(aio.ChatMemory.begin_session)
    get_messages = _waits(aio.ChatMemory.get_messages)
    load_context = _waits(aio.ChatMemory.load_context)
    facts = _waits(aio.ChatMemory.facts)
    reset = _waits(aio.ChatMemory.reset)
    delete_expired = _waits(aio.ChatMemory.delete_expired)
    set_retention = _waits(aio.ChatMemory.set_retention)
    retention = _waits(aio.ChatMemory.retention)

    def ai_message(self, session: UUID | str, *, metadata: Mapping[str, Any] | None = None) -> AiMessage:
        """An answer that comes in pieces: `with chat.ai_message(session) as said: said.add(piece)`."""
        return AiMessage(self._async, session, metadata)


class AiMessage(aio_chat.AiMessage):
    """As memoryd_client's: `with chat.ai_message(session) as said: said.add(piece)`."""

    def __enter__(self) -> AiMessage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        _LOOP.run(self.__aexit__(kind, error, at))


class Executor(_Closing):
    """As memoryd_client.Executor: `with Executor(...)` runs it beside the block, `run()` until SIGTERM or Ctrl-C."""

    @_constructs(aio.Executor)
    def __init__(self) -> None: ...

    def __enter__(self) -> Executor:
        _LOOP.run(self._async.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    stop = _waits(aio.Executor.stop)

    def run(self) -> None:
        """Runs until SIGTERM, Ctrl-C or stop(), and finishes what runs."""
        _LOOP.started()  # before a signal needs it
        main = threading.current_thread() is threading.main_thread()
        before = {n: signal.signal(n, self._signalled) for n in (signal.SIGTERM, signal.SIGINT) if main}
        try:
            _LOOP.run(self._async.run())
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        _LOOP.soon(self._async.stop_soon)
