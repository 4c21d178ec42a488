"""Load and validate the settings, frozen, each value with the file and line where it was set."""
