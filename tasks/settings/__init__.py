"""Load and validate the immutable settings, each value with the file and line that sets it."""
