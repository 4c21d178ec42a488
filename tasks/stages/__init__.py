"""The stages, one package each: types in model.py, the plan in plan.py, effects in run.py."""
