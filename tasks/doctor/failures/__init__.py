"""What becomes of a stage that failed: its cause, the remedy for this host and profile, and what
is healed.
"""
