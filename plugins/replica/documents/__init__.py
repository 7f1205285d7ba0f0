"""Documents as files of the replica."""
