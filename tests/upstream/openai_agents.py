"""Runs the OpenAI Agents SDK's own tests of its sessions on MemorydSession.

    MEMORYD_UPSTREAM=/path/to/checkouts python -m tests.upstream.openai_agents

In the folder openai-agents/ of MEMORYD_UPSTREAM are test_session.py and test_session_limit.py of the SDK's tests/memory, and
test_sqlalchemy_session.py of its tests/extensions/memory. What they make as an SQLiteSession or an SQLAlchemySession is a
MemorydSession here, all in one database.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

from benchmarks.harness import database
from tests.upstream import folder_of, run

FILES = ("test_session.py", "test_session_limit.py", "test_sqlalchemy_session.py")
SQLITE = "SQLiteSession's file, locks and connections"
SQLALCHEMY = "SQLAlchemy's engines, statements and tables"
LEFT_OUT = {
    "test_await_mutation_cancellation": "the SDK's own function",
    "test_sqlite_session_(close_|file_lock|failed|rollback|post_commit)": SQLITE,
    "test_sqlite_session_closed": "that a closed session refuses also an empty list",
    "test_sqlalchemy_session_(defaults|can_store)": SQLALCHEMY,
    "test_sqlite_(configuration|fallback)|test_engine_property|test_create_tables_false": SQLALCHEMY,
    "test_pop_item_(supports|retries)": SQLALCHEMY,
    "test_mutation_cancellation_waits": SQLALCHEMY,
    "test_add_items_waits_for_transient|test_add_items_cancelled_waiter": SQLALCHEMY,
    "test_(get_items|pop_item)_same_timestamp|test_get_items_orders_by_id": SQLALCHEMY,
}
"""By the beginning of names. The first that fits is the reason."""
CORRUPT = """
insert into conversation_messages (session_id, role, content, metadata) values ($1, 'tool', '', $2::jsonb)
"""


class _Engine:
    """What the tests take for an engine of SQLAlchemy."""

    def __init__(self, url: str) -> None:
        self.url = url if ":memory:" not in url else str(uuid4())

    async def dispose(self) -> None: ...


def _sessions(url: str) -> tuple[type[Any], type[Any]]:
    """Ours, made as SQLiteSession and as SQLAlchemySession are."""
    from memoryd_client import sync  # noqa: PLC0415 - after the path is set
    from memoryd_client.openai_agents import HOST, MemorydSession  # noqa: PLC0415

    shared = sync.Database(url)

    class Session(MemorydSession):
        messages_table = "conversation_messages"

        def close(self) -> None:  # type: ignore[override]
            """Of SQLiteSession it is no coroutine."""

        def corrupt(self) -> None:
            """Adds a row that is no item."""
            rows: Any = self._rows
            broken = json.dumps({HOST: {"item": "not valid json {{{", "texts": []}})
            self._run(rows._database.read(rows._who, lambda c: c.execute(CORRUPT, rows._session, broken)))

    class Lite(Session):
        def __init__(self, session_id: str, path: Path | None = None, **given: Any) -> None:
            super().__init__(f"{path or uuid4()} {session_id}", shared, **given)

        @contextmanager
        def _locked_connection(self) -> Any:
            yield MagicMock(execute=lambda *_: self.corrupt())

    class Alchemy(Session):
        def __init__(
            self, session_id: str, *, engine: _Engine, create_tables: bool = False, **given: Any
        ) -> None:
            super().__init__(f"{engine.url} {session_id}", shared, **given)
            self.engine = engine
            self._messages = MagicMock()

        @classmethod
        def from_url(cls, session_id: str, *, url: str, **given: Any) -> Any:
            return cls(session_id, engine=_Engine(url), **given)

        async def _ensure_tables(self) -> None: ...

        def _session_factory(self) -> Any:
            session = MagicMock()

            async def execute(*_: object) -> None:
                self.corrupt()

            session.__aenter__.return_value.execute = execute
            session.__aenter__.return_value.begin = MagicMock
            return session

    return Lite, Alchemy


def _stand_in(name: str, **names: Any) -> None:
    module = ModuleType(name)
    vars(module).update(names)
    sys.modules[name] = module


def _text_message(content: str) -> Any:
    """As get_text_message of the SDK's tests/test_responses.py."""
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText  # noqa: PLC0415

    text = ResponseOutputText(text=content, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(id="1", type="message", role="assistant", content=[text], status="completed")


def main() -> int:
    """Runs the tests; 0 where all that are not left out passed."""
    folder = folder_of("openai-agents")
    if folder is None:
        return 2
    with database(None) as url:
        lite, alchemy = _sessions(url)
        _stand_in("tests.test_responses", get_text_message=_text_message)
        _stand_in("tests.memory")
        for name in ("sqlalchemy", "sqlalchemy.sql", "sqlalchemy.ext", "sqlalchemy.ext.asyncio"):
            sys.modules[name] = MagicMock(create_async_engine=_Engine)
        _stand_in("agents.extensions.memory.sqlalchemy_session", SQLAlchemySession=alchemy)
        spec = importlib.util.spec_from_file_location("tests.memory.test_session", folder / "test_session.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[spec.name] = module

        def put(module: ModuleType) -> None:
            if hasattr(module, "SQLiteSession"):
                vars(module)["SQLiteSession"] = lite

        return run([folder / name for name in FILES], LEFT_OUT, put)


if __name__ == "__main__":
    sys.exit(main())
