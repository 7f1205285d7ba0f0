"""How memoryd is doing: the status at a glance, and the doctor's checks."""
