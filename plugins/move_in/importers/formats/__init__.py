"""One module for each system that memories come from. Its pure functions turn records into items."""
