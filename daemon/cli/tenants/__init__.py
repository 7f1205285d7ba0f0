"""Tenants of one memoryd."""
