"""What somebody is told who asks for a part of memoryd whose packages are not installed."""

from __future__ import annotations


def missing(what: str, extra: str) -> str:
    """A sentence with the commands that install them. `extra`: of pyproject.toml."""
    return (
        f"{what} needs packages that are not installed. In the folder of a checkout: pipx install --force '.[{extra}]' "
        f"(or, in its own environment, .venv/bin/pip install -e '.[{extra}]')"
    )
