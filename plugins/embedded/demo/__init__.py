"""memoryd demo: the command and its script."""
