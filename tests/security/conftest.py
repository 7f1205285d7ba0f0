"""Each file has one database, which is emptied after each test, and one daemon (tests/integration/conftest.py)."""

from tests.integration.conftest import (
    both_reused,
    connection,
    daemon,
    daemons,
    database_url,
    kept,
    reused,
    scratch,
    shared_url,
)

__all__ = [
    "both_reused",
    "connection",
    "daemon",
    "daemons",
    "database_url",
    "kept",
    "reused",
    "scratch",
    "shared_url",
]
