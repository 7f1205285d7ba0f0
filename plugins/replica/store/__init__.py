"""The statements of the replica."""
