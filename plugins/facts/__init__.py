"""What users say of themselves becomes memories, and whom and what they name is known."""
