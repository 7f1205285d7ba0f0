"""All that is kept about a user."""
