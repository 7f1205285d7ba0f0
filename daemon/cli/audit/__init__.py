"""memoryd audit."""
