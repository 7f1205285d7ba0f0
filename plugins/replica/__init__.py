"""The replica: documents as files in a folder, kept the same both ways."""
