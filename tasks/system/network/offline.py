"""Nothing is asked of a network: every program that this one starts is told so."""

from __future__ import annotations

import os
from pathlib import Path

from tasks.system import files

_OFFLINE_FLAG = "_TORCHYARD_OFFLINE"
# Of these a person may have their own, and they would name other places
_INDEX_PLACE_VARIABLES = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    *("UV_EXTRA_INDEX_URL", "UV_TORCH_BACKEND", "UV_NO_CONFIG"),
)


def start_offline_mode(wheels: Path) -> None:
    """From now on uv and pip look into the folder `wheels` alone, and git reads local repositories
    alone.
    """
    for name in _INDEX_PLACE_VARIABLES:
        os.environ.pop(name, None)
    where = wheels.absolute().as_uri()
    # uv has no variable for no-index, and offline it would take other versions from its cache
    config = wheels.with_name(f"{wheels.name}-uv.toml").absolute()
    files.write_atomic(config, "no-index = true\n")
    os.environ |= {
        _OFFLINE_FLAG: str(wheels),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": where,
        "PIP_CONFIG_FILE": os.devnull,
        "UV_FIND_LINKS": where,
        "UV_OFFLINE": "1",
        "UV_CONFIG_FILE": str(config),
        "GIT_ALLOW_PROTOCOL": "file",
    }


def is_offline() -> bool:
    """Whether that was said."""
    return _OFFLINE_FLAG in os.environ
