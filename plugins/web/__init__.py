"""The pages of `memoryd web`: what is remembered, seen, searched, explained and repaired."""
