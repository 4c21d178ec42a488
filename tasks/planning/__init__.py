"""Resolve targets, strategy and toolkit from settings, host and knowledge, and make the plan."""
