"""What is wrong with what is remembered, and what came from one thing: finding, repairing, forgetting. Prints nothing."""
