"""How memoryd is doing: `memoryd status` at a glance, the checks of `memoryd doctor`, and `memoryd dead`."""
