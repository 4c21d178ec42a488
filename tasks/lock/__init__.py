"""torchyard.lock: what a profile was built from, and a build of exactly that.

`section` is its form, `text` how it is written, `pinning` applies it to a plan, `difference`
compares it with a build. `bundle` packs what a build fetches for machines without a network.
"""

LOCK_NAME = "torchyard.lock"
