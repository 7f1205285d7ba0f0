"""Moving to memoryd: importers of other systems, tables that are adopted, exports and their import, seeds of knowledge."""
