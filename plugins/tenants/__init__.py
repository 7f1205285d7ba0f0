"""Tenants: databases of one memoryd, each of a customer. They are made, listed, and served by one process."""
