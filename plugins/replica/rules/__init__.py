"""The replica without I/O: files of documents and of entries, and what has to be done to them."""
