"""The built-in executor: a program that the owner names runs the commands, confined."""
