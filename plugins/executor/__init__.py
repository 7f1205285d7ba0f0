"""The built-in executor: commands run by a program of the user's, in confinement."""
