"""Stand-ins for the outside world, for tests of every kind."""
