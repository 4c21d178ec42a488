"""Decide targets, strategy and toolkit from settings, host and knowledge, each with its reason, and
make the plan.
"""
