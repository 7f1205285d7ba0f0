"""The trail's work in the daemon: places of leaves, checkpoints, what ledgers keep, and what is read to verify it all."""
