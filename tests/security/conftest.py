"""A connection to a database of the file's own whose transaction is undone, for tests that need no session beside it."""

from tests.integration.conftest import kept, scratch, shared_url

__all__ = ["kept", "scratch", "shared_url"]
