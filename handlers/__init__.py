"""What happens on each event, one file per topic."""
