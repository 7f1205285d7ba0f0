"""Servers of Postgres, databases on them, and the way there."""
