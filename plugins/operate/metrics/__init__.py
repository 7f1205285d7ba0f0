"""The HTTP port: probes of the daemon's health, and metrics for Prometheus."""
