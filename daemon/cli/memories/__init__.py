"""What is remembered, and what is known."""
