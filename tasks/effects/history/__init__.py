"""The record of a run as it is written, and what the runs before it left."""
