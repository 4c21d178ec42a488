"""Lock what a profile was built from in torchyard.lock, and build exactly that again.

`lock_file` defines and reads the format, `lock_builder_io` creates a section from a finished build,
`plan_pinning` applies a section to a plan. `bundle_archive_io` packs everything that a build
downloads for machines without a network.
"""

LOCK_NAME = "torchyard.lock"
