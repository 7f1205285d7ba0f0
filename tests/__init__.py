"""What memoryd promises, checked."""
