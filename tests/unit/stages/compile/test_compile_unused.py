"""CMake's report of unused variables is read from its output."""

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


def test_only_requested_unused_variables_are_reported() -> None:
    unused = UnusedVariables({"USE_NCLL", "USE_OTHER", "USE_CUDA"})
    for line in CONFIGURE.splitlines():
        unused.read_line(line)
    assert unused.names == ["USE_NCLL"]
