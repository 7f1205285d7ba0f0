"""The memoryd command line: a file for one or a few commands, put together in app.py."""
