"""memoryd adopt, import, export and know."""
