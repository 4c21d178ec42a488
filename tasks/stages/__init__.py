"""The stages, one room each: job.py (frozen types), plan.py (pure), action.py (effects)."""
