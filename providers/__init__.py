"""The outside world behind small Protocols: embeddings, language model, files."""
