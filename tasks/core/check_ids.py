"""List the names of the checks, which doctor.ignore accepts.

This module imports no other module of torchyard.
"""

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

# The checks that run before a build writes anything. They can find a problem, and use neither
# the network nor slow processes
GATE_CHECK_IDS: frozenset[CheckId] = frozenset(
    {
        *("os", "python", "git", "compiler", "toolkit", "cards", "driver"),
        *("torch-checks", "submodules", "conflicts"),
        *("known-bad", "disk", "memory", "paths"),
    }
)
