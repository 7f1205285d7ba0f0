"""One module for each system that memories come from: what its records mean. Pure: records come in, items go out."""
