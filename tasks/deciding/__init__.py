"""From settings, host and knowledge to a choice: archs, the way to a torch, the toolkit,
each with its reason. Pure.
"""
