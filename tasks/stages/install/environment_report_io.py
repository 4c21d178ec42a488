"""Print a JSON report on the environment of the interpreter that runs this script.

The script supports Python 3.8. Its argument is the folder with torchyard's copy of `packaging`.
"""

import json
import os
import site
import sys
import sysconfig
from importlib import metadata
from typing import Any

OUTPUT_PREFIX = "torchyard: "


def describe_environment(packaging: str) -> dict[str, Any]:
    """Describe the running interpreter. `packaging` is the folder with the library `packaging`."""
    sys.path.insert(0, packaging)
    from packaging import markers, tags  # noqa: PLC0415 - from the given folder

    sys.path.remove(packaging)
    paths = sysconfig.get_paths()
    # PEP 668: only the system's package manager may install here. This never applies to a venv
    marker = os.path.join(paths["stdlib"], "EXTERNALLY-MANAGED")  # noqa: PTH118
    is_managed = sys.prefix == sys.base_prefix and os.path.isfile(marker)  # noqa: PTH113
    # a torch in ~/.local is imported before the one in the environment
    user_torch = os.path.join(site.getusersitepackages(), "torch")  # noqa: PTH118
    is_user_torch = site.ENABLE_USER_SITE and os.path.isdir(user_torch)  # noqa: PTH112
    # without the distributions that a venv inherits from its base interpreter
    sites = sorted({os.path.realpath(paths[name]) for name in ("purelib", "platlib")})
    return {
        "version": ".".join(map(str, sys.version_info[:3])),
        "tags": [str(tag) for tag in tags.sys_tags()],
        "markers": {name: str(value) for name, value in markers.default_environment().items()},
        "prefix": os.path.realpath(sys.prefix),
        "purelib": paths["purelib"],
        "platlib": paths["platlib"],
        "scripts": paths["scripts"],
        "managed": marker if is_managed else "",
        "user_torch": user_torch if is_user_torch else "",
        "distributions": [
            {
                "name": one.metadata["Name"] or "",
                "version": one.version or "",
                "installer": (one.read_text("INSTALLER") or "").strip(),
                "requires": list(one.requires or ()),
            }
            for one in metadata.distributions(path=sites)
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(OUTPUT_PREFIX + json.dumps(describe_environment(sys.argv[1])) + "\n")
