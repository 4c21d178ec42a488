"""Extension stages: build and install each extension in its stage `extensions:NAME`.

A stage runs again if its source, its settings, the compilers, the targets or torch's ABI
fingerprint changed. An optional extension with an unreachable source is tried again in every run.
"""
