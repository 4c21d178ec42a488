"""A switch that CMake did not use is found in what it prints."""

from __future__ import annotations

from tasks.stages.compile.run import UnusedVariables

CONFIGURE = """\
-- Generating done (0.4s)
CMake Warning:
  Manually-specified variables were not used by the project:

    USE_NCLL
    BUILD_PYTHON


-- Build files have been written to: /tree/build
    USE_OTHER
"""


def test_only_what_was_asked_for_and_listed_is_named() -> None:
    unused = UnusedVariables({"USE_NCLL", "USE_OTHER", "USE_CUDA"})
    for line in CONFIGURE.splitlines():
        unused.read_line(line)
    assert unused.names == ["USE_NCLL"]
