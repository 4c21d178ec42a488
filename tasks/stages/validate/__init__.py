"""validate: check the built artifacts statically and at run time, and report what works.

A check is passed, failed, or not run with the reason. A check that was not run never counts as
passed.
"""
