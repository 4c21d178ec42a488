"""The names of the checks: what `doctor.ignore` takes. A leaf."""

from __future__ import annotations

from typing import Literal, get_args

CheckId = Literal[
    "settings",
    "os",
    "python",
    "uv",
    "git",
    "compiler",
    "visual-studio",
    "windows-sdk",
    "toolkit",
    "torch-checks",
    "submodules",
    "conflicts",
    "cards",
    "targets",
    "driver",
    "cmake",
    "ninja",
    "known-bad",
    "disk",
    "filesystem",
    "memory",
    "swap",
    "paths",
    "long-paths",
    "locale",
    "variables",
    "proxies",
    "index",
    "git-hosts",
    "workers",
    "leftovers",
    "torch-shadow",
    "names",
    "trust",
]

CHECK_IDS: tuple[CheckId, ...] = get_args(CheckId)
ALL_CHECK_IDS = frozenset(CHECK_IDS)

# What a build looks at before it writes anything: no network, no slow process, and nothing that
# cannot be a problem.
GATE_CHECK_IDS: frozenset[CheckId] = frozenset(
    {
        *("os", "python", "git", "compiler", "toolkit", "cards", "driver"),
        *("torch-checks", "submodules", "conflicts"),
        *("known-bad", "disk", "memory", "paths"),
    }
)
