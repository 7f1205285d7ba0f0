"""Reads files into Markdown: `parser` is the way in, the other modules are one format or one part of the child process each.

Promise: a file, whatever is in it, can at most be refused. It cannot end the daemon, fill its memory, keep it
busy for longer than a limit, or make it open a connection.
"""
