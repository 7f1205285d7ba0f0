"""Tenants: databases of one memoryd, each of a customer, served by one process."""
