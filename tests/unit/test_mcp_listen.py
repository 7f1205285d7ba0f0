"""The port of memoryd mcp --http."""

from __future__ import annotations

import socket

import pytest

from daemon.mcp.http import LOOPBACK, listen


def test_a_client_may_connect_before_the_server_is_up_and_no_second_server_gets_the_port() -> None:
    with listen(0) as first:
        port = first.getsockname()[1]
        socket.create_connection((LOOPBACK, port), timeout=5).close()
        with pytest.raises(OSError, match="in use"):
            listen(port)
