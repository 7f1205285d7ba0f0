"""The queue: its statements, the workers that take from it, what becomes of failures, and what wakes the workers."""
