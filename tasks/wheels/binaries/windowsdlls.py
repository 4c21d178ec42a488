"""The DLLs that every Windows has, and those of the Visual C++ runtime, by delvewheel's own lists,
where it is installed.

https://github.com/adang1345/delvewheel/blob/master/delvewheel/_dll_list.py
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from tasks.wheels.linking.values import SystemDlls


def classify_dlls(names: Iterable[str]) -> SystemDlls | None:
    """Whose these are, on x86-64; None without delvewheel, or where its lists have another form."""
    wanted = frozenset(names)
    try:
        lists: Any = importlib.import_module("delvewheel._dll_list")
        ignored = lists.ignore_regexes
        windows = frozenset(lists.ignore_names_x64)
        begun = frozenset(n for n in wanted if any(one.fullmatch(n) for one in ignored))
        runtime = frozenset(n for n in wanted if lists.vc_redist.fullmatch(n))
    except (ImportError, AttributeError, TypeError):
        return None
    python = frozenset(n for n in begun if n.startswith(("python", "libpypy")))
    # CPython for Windows lies beside these two
    python |= wanted & {"python3.dll", "vcruntime140.dll", "vcruntime140_1.dll"}
    return SystemDlls((wanted & windows) | (begun - python), python, runtime - python)
