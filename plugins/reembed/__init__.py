"""Another embedding model for a database in use: `memoryd reembed`."""
