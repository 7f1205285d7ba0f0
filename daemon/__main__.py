"""`python -m daemon` is `memoryd`."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point. The imports take a second, and Ctrl-C within it shows no traceback either."""
    try:
        from daemon.cli.app import main as memoryd  # noqa: PLC0415

        memoryd()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
