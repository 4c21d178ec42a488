"""validate: check the built artifacts statically and at run time, and report what works.

Inputs: wheel.json, the extensions' manifests and the environment; the GPU, if there is one.

Output: validate.json, also if a check failed. A check is passed, failed, or not run with the
reason; a check that was not run never counts as passed.

Reruns when: requested.
"""
