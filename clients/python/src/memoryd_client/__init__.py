"""Memory for AI agents and chatbots, kept in Postgres by memoryd. `memoryd_client.sync` has the same without async."""

from memoryd_client._database import Database
from memoryd_client._errors import (
    MemorydError,
    NotFound,
    NotIndexed,
    OutcomeUnknown,
    Refused,
    TimedOut,
    Unavailable,
)
from memoryd_client._ids import id_of
from memoryd_client._types import Command, Fact, Found, IndexState, Message, Recall, Remembered
from memoryd_client.chat import ChatMemory
from memoryd_client.executor import Executor
from memoryd_client.memory import Memory

__all__ = [
    "ChatMemory",
    "Command",
    "Database",
    "Executor",
    "Fact",
    "Found",
    "IndexState",
    "Memory",
    "MemorydError",
    "Message",
    "NotFound",
    "NotIndexed",
    "OutcomeUnknown",
    "Recall",
    "Refused",
    "Remembered",
    "TimedOut",
    "Unavailable",
    "id_of",
]
