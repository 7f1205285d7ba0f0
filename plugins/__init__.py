"""What stands apart from the core, a folder each. daemon/plugins.py is the one door."""
