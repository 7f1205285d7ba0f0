"""Documents, and files of the replica."""
