"""The record of a run, read: what its lines hold, and many runs in few. Pure."""
