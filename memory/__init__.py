"""What remembering means: pure functions without I/O, without a clock and without settings."""
