"""memoryd backup and memoryd restore."""
