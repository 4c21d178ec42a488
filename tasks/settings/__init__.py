"""What was asked for: validated, frozen, and each value knowing where it came from."""
