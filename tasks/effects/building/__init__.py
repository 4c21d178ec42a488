"""What builds in a folder: Ninja, its logs and lines, the compiler cache, the crew of jobs."""
