"""Tenants: databases of one memoryd, each of a customer. Made, listed."""
