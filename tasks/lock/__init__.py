"""Lock the build inputs of a profile in torchyard.lock, to build from exactly the same inputs.

A bundle contains everything that a build downloads, for machines without a network.
"""
