"""torchyard.lock: what a profile was built of, exactly, so that it is built of the same again.

`section` is its form, `text` how it is written, `pinning` what a plan takes from it, `difference`
in what it and a build are not the same. All of it is pure.
"""

LOCK = "torchyard.lock"
