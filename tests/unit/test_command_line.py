"""A password in a URL is not seen by who lists the processes."""

from __future__ import annotations

import pytest

from daemon.db.server import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:s%2Bc+t@db:5432/m?sslmode=require", "postgresql://ada@db:5432/m?sslmode=require"),
        ("postgresql://ada@db/m?password=s%2Bc+t&sslmode=require", "postgresql://ada@db/m?sslmode=require"),
        ("postgresql:///m?password=s%2Bc+t", "postgresql:///m"),
        ("postgresql:///m?pass%77ord=s%2Bc+t", "postgresql:///m"),
    ],
)
def test_the_password_goes_into_the_environment(url: str, shown: str) -> None:
    left, environment = without_password(url)
    assert (left, environment["PGPASSWORD"]) == (shown, "s+c+t")


@pytest.mark.parametrize("name", ["sslpassword", "ssl%70assword"])
def test_a_password_that_no_environment_takes_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="leave sslpassword out") as refused:
        without_password(f"postgresql://ada@db/m?sslmode=require&{name}=s3cret")
    assert "s3cret" not in str(refused.value)
