"""What starts a pass over the replica, and what it has to look at."""
