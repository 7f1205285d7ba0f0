"""What is read from the files of the replica: which changed, whether they are whole, and what they say."""
