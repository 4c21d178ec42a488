"""The stages, one folder each: job.py (frozen types), plan.py (pure), action.py (effects)."""
