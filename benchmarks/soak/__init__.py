"""Many writers, many faults, and an account, only from the data, of what became of every row."""
