"""The Postgres that memoryd brings along, for those who have none."""
