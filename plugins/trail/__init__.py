"""The trail's work in the daemon: positions of leaves, checkpoints, what ledgers keep, and what is read to verify it all."""
