"""The daemon and its database."""
