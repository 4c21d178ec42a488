"""Check whether this host can build a profile, and explain why a stage failed."""
