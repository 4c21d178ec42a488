"""wheel: build, fetch or find torch, check it and install it.

Inputs: a requirement (prebuilt), a build directory (source) or an interpreter (existing).

Outputs: wheel.json (the installed torch) and surface.json (the ABI fingerprint of torch).

Reruns when: an input changed. A rebuild with the same content keeps the old wheel and manifests.
"""
