"""What is remembered as sections of files of the replica."""
