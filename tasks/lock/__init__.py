"""Lock what a profile was built from in torchyard.lock, and build exactly that again.

A bundle has everything that a build downloads, for machines without a network.
"""

LOCK_NAME = "torchyard.lock"
