"""`memoryd`, also as `python -m memoryd`. Promise: of all packages with the names of memoryd's it loads memoryd's."""

import sys

from memoryd import FOLDER

PACKAGES = ("daemon", "handlers", "memory", "migrations", "plugins", "providers")


def main() -> None:
    """Entry point."""
    sys.path.insert(0, FOLDER)
    # A package of the same name that a .pth loaded.
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]
    from daemon.__main__ import main as run

    run()


if __name__ == "__main__":
    main()
