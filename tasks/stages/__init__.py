"""The stages, a folder for each: types in job.py, the plan in plan.py, effects in action.py."""
