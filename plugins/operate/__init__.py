"""What operators watch and keep: the HTTP port, metrics, traces, backups."""
