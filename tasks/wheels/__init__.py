"""Wheels: read, write, install, verify and publish them."""
