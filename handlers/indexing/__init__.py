"""How rows are made findable: rows that are indexed by their own text, messages with their windows, words."""
