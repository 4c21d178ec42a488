"""The stages. Each is a package: types in model.py, planning in plan.py, execution in run.py."""
