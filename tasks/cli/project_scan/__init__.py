"""Look at a user's project: its extensions, requirements and environments."""
