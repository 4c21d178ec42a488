"""The installed package of torchyard.

A wheel has `tasks`, `config`, `templates` and `docs` in this package, so that installing it adds no
other top-level module. A checkout has them at its root.
"""

import sys
from pathlib import Path


def find_code_folder() -> Path:
    """Return the folder with `tasks`, `config` and `templates`."""
    package = Path(__file__).resolve().parent
    return package if (package / "tasks").is_dir() else package.parents[1]


def make_tasks_importable(folder: Path) -> None:
    """Add the folder that contains `tasks` to the module search path."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
