"""The way from clients, and what it costs."""
