"""memoryd beside other memories for agents: the same rows, the same vectors, the same Postgres."""
