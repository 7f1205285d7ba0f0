"""What is measured, each a command of its own with --help."""
