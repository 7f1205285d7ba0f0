"""The numbered SQL files that are the schema's only source."""
