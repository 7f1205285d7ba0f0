"""A password in a URL is not seen by who lists the processes."""

from __future__ import annotations

import pytest

from daemon.db.command_line import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:s%2Bc+t@db:5432/m?sslmode=require", "postgresql://ada@db:5432/m?sslmode=require"),
        ("postgresql://ada@db/m?password=s%2Bc+t&sslmode=require", "postgresql://ada@db/m?sslmode=require"),
        ("postgresql:///m?password=s%2Bc+t", "postgresql:///m"),
    ],
)
def test_the_password_goes_into_the_environment(url: str, shown: str) -> None:
    left, environment = without_password(url)
    assert (left, environment["PGPASSWORD"]) == (shown, "s+c+t")
