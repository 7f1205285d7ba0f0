"""memoryd hook and memoryd hooks: memory for coding agents."""
