"""memoryd adopt, and memoryd import --from another system."""
