"""What happens on each event: one file or folder for one or two topics."""
