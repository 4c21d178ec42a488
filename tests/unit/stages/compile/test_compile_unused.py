"""CMake's report of unused variables is read from its output."""

from __future__ import annotations

from tasks.stages.compile.run import list_unused_variables

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
    requested = {"USE_NCLL", "USE_OTHER", "USE_CUDA"}
    assert list_unused_variables(CONFIGURE.splitlines(), requested) == ["USE_NCLL"]
