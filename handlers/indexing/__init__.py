"""How rows are made findable: those that stand for themselves, messages with their windows, words."""
