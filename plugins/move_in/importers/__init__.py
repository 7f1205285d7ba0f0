"""What other systems of memory export: read (records, sources, rivals), checked (items, spool), written (writer)."""
