"""Exports of other memory systems: read (records, sources, formats), checked (items, spool), written (writer)."""
