"""A server that plays Google Drive."""
