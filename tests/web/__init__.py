"""`memoryd web`: its pages over real HTTP, and in a browser."""
