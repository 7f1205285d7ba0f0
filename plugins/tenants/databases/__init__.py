"""Many databases in one process: which they are, and for each a daemon while there is work."""
