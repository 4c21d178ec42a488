"""Extension stages: build and install each extension in its stage `extensions:NAME`.

The inputs are the extension's source, the environment and torch's ABI fingerprint (surface.json).
The output is extensions/NAME.json with the wheel, its libraries and the archs that were read from
them. A stage runs again if its source, its settings, the compilers, the targets or the ABI
fingerprint changed. An optional extension whose host did not answer is tried again in every run.
"""
