"""Backups: a database of memoryd as one file, and a database of such a file."""
