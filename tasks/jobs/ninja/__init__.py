"""Ninja: how it is started, and what it plans to do."""
