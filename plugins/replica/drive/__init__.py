"""The replica in a folder of Google Drive."""
