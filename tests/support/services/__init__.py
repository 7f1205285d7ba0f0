"""Servers that play services outside."""
