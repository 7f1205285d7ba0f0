"""Tenants: databases of one memoryd, each of a customer. Made from a template, listed, moved to another server."""
