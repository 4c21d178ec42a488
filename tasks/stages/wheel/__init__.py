"""wheel: build, fetch or find torch, check it and install it.

Inputs: a requirement, a build directory or an interpreter.

Outputs: wheel.json (for validate) and surface.json (what extensions compile and link against).

Reruns when: an input changed. A rebuild with the same content keeps the old wheel and manifests.
"""
