"""Facts that people say of themselves in conversations."""
