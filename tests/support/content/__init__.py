"""What people say and agents remember."""
