"""The plugins of doit that pyproject.toml registers, for tests that run doit in this process: what
was installed may be older.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"
_GROUPS = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
PLUGINS = {group.removeprefix("doit."): dict(plugins) for group, plugins in _GROUPS.items()}
