"""Read, write, install, verify and publish wheels."""
