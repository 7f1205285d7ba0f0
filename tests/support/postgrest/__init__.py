"""A server that plays PostgREST."""
