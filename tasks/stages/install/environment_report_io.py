"""Describe the user's environment as one line of JSON. Runs in the user's interpreter.

The argument is the folder of torchyard's `packaging`: it knows the tags of the Python it runs in,
and nothing has to be installed there for it. Python 3.8 must be able to run this file.
"""

from __future__ import annotations

import json
import os
import site
import sys
import sysconfig
from importlib import metadata
from typing import Any

OUTPUT_PREFIX = "torchyard: "


def describe_environment(packaging: str) -> dict[str, Any]:
    """Return everything that must be known before an install."""
    sys.path.insert(0, packaging)
    from packaging import markers, tags  # noqa: PLC0415 - from the folder that is given

    sys.path.remove(packaging)
    paths = sysconfig.get_paths()
    return {
        "version": ".".join(map(str, sys.version_info[:3])),
        "tags": [str(tag) for tag in tags.sys_tags()],
        "markers": {name: str(value) for name, value in markers.default_environment().items()},
        "prefix": os.path.realpath(sys.prefix),
        "purelib": paths["purelib"],
        "platlib": paths["platlib"],
        "scripts": paths["scripts"],
        "managed": _find_managed_marker(paths["stdlib"]),
        "conda": os.path.isdir(os.path.join(sys.prefix, "conda-meta")),  # noqa: PTH112, PTH118
        "user_torch": _find_user_torch(),
        "distributions": [_describe_distribution(one) for one in _list_distributions(paths)],
    }


def _find_managed_marker(stdlib: str) -> str:
    """Return the EXTERNALLY-MANAGED file of PEP 668, or "".

    It means that only the system's package manager installs here. A venv is never managed.
    """
    if sys.prefix != sys.base_prefix:
        return ""
    mark = os.path.join(stdlib, "EXTERNALLY-MANAGED")  # noqa: PTH118
    return mark if os.path.isfile(mark) else ""  # noqa: PTH113


def _find_user_torch() -> str:
    """Return the torch in ~/.local that this Python imports before the environment's, or ""."""
    if not site.ENABLE_USER_SITE:
        return ""
    folder = os.path.join(site.getusersitepackages(), "torch")  # noqa: PTH118
    return folder if os.path.isdir(folder) else ""  # noqa: PTH112


def _list_distributions(paths: dict[str, str]) -> list[Any]:
    """Return this environment's distributions, without those a venv inherits from its base."""
    sites = {os.path.realpath(paths[name]) for name in ("purelib", "platlib")}
    return list(metadata.distributions(path=sorted(sites)))


def _describe_distribution(one: Any) -> dict[str, Any]:
    return {
        "name": one.metadata["Name"] or "",
        "version": one.version or "",
        "installer": (one.read_text("INSTALLER") or "").strip(),
        "requires": list(one.requires or ()),
    }


if __name__ == "__main__":
    sys.stdout.write(OUTPUT_PREFIX + json.dumps(describe_environment(sys.argv[1])) + "\n")
