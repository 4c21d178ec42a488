"""validate: look at what was built, from outside and from inside, and say what works.

Given: wheel.json, the extensions' manifests and the environment; what the card here can do, where
there is one.
Leaves: validate.json, also when a check failed. A check is passed, failed, or not run with the
reason; one that was not run never counts as passed.
Reruns when: it is asked for.
"""
