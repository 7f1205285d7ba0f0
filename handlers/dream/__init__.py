"""Dreams: what the memories of the last days say together."""
