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
from memoryd_client._types import (
    Command,
    Decision,
    DecisionRate,
    Fact,
    Found,
    IndexState,
    MemoryVersion,
    Message,
    Noted,
    Recall,
    Remembered,
)
from memoryd_client.chat import ChatMemory
from memoryd_client.executor import Executor
from memoryd_client.knowledge import Knowledge
from memoryd_client.memory import Memory

__all__ = [
    "ChatMemory",
    "Command",
    "Database",
    "Decision",
    "DecisionRate",
    "Executor",
    "Fact",
    "Found",
    "IndexState",
    "Knowledge",
    "Memory",
    "MemoryVersion",
    "MemorydError",
    "Message",
    "NotFound",
    "NotIndexed",
    "Noted",
    "OutcomeUnknown",
    "Recall",
    "Refused",
    "Remembered",
    "TimedOut",
    "Unavailable",
    "id_of",
]
