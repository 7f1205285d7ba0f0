"""What several handlers need: the seam to the queue, embeddings, questions, rows that are locked."""
