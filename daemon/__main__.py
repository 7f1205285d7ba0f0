"""`python -m daemon` is `memoryd`."""

from daemon.cli.app import main

main()
