"""The Postgres that memoryd brings along, for users without one; and memoryd demo."""
