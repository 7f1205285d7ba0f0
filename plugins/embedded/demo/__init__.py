"""memoryd demo: what is done, what it is done with, where, and how it is shown."""
