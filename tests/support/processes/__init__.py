"""memoryd at work: as processes, or in the process of a test."""
