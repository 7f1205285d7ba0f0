"""`python -m daemon` in a checkout; `memoryd` calls it, too, after it has found its packages (memoryd/__main__.py)."""

from __future__ import annotations

import sys


def _load_structlog() -> None:
    """Without rich, which it would load for tracebacks in colours: a sixth of the time in which a command starts."""
    if "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]
        import structlog  # noqa: F401, PLC0415

        del sys.modules["rich"]


def main() -> None:
    """Entry point. The imports take a second, and Ctrl-C within it shows no traceback either."""
    try:
        if sys.argv[1:2] == ["hook"] and "--help" not in sys.argv:
            from plugins.hooks.hook import main as hook  # noqa: PLC0415 - a coding agent waits for it

            hook(sys.argv[2:])
        _load_structlog()
        from daemon.cli.app import main as memoryd  # noqa: PLC0415

        memoryd()
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        # A folder of plugins/ that this command, or a plugin, needs.
        if not f"{error.name}.".startswith("plugins."):
            raise
        command = " ".join(["memoryd", *sys.argv[1:2]])
        sys.exit(f"{command} needs {error.name}, which is not installed here. Install memoryd again.")


if __name__ == "__main__":
    main()
