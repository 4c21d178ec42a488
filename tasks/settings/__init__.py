"""The settings: validated, frozen, each value with the file and line it came from."""
