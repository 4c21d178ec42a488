"""The libraries that every Linux of manylinux has, by auditwheel's own list, where it is installed.

https://github.com/pypa/auditwheel/tree/main/src/auditwheel/policy
"""

from __future__ import annotations

import json
from importlib import resources

_POLICY_PREFIX = "manylinux_2_"


def read_manylinux_libraries() -> frozenset[str] | None:
    """Names as they are linked ("libz.so.1") that each policy allows; None without auditwheel."""
    try:
        file = resources.files("auditwheel") / "policy" / "manylinux-policy.json"
        policies = json.loads(file.read_text(encoding="utf-8"))
    except (ImportError, OSError, ValueError):
        return None
    allowed = [
        frozenset(one["lib_whitelist"])
        for one in policies
        if one["name"].startswith(_POLICY_PREFIX)
    ]
    return frozenset.intersection(*allowed) if allowed else None
