"""Files become documents: found in folders, read, and written into the database."""
