"""validate: check the built artifacts statically and at run time, and report what works.

The status of a check is passed, failed, or not run (with a reason). A check that was not run never
counts as passed.
"""
