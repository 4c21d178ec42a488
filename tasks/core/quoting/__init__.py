"""shells: how each shell writes a value, a name and a comment down, and what it cannot hold. Pure.

One module per shell; each has `quote`, `name` and `assign`, which raise a `BuildError` where the
shell has no way to write it. What the variables mean they do not know.
"""
