"""Recall: what it finds, and how long it takes."""
