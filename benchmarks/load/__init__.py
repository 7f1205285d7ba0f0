"""What a daemon does, how fast, and what it costs."""
