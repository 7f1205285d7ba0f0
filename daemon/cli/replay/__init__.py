"""memoryd replay: a history of finished tasks from a file."""
