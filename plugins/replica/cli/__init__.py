"""The replica."""
