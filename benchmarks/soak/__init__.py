"""Many writers, many faults, and an account from the data alone of what became of every row."""
