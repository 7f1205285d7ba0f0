"""The replica, and the hands of people on it."""
