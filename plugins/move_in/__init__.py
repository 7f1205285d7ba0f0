"""Whoever comes from elsewhere: importers of other systems, and adopting tables that are there."""
