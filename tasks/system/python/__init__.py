"""Interpreters, environments, and the packages in them."""
