"""Modules that lie beside a script and are found by it alone: the probe's, and templates'."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from tests.support.checkout import ROOT

PROBES = ROOT / "tasks" / "stages" / "validate" / "probes"
CHECKS = ROOT / "templates" / "checks"


@contextmanager
def beside(folder: Path, *others: ModuleType) -> Iterator[None]:
    """Where imports find what lies in `folder`, and `others` by their names; afterwards nothing of
    it is left.
    """
    path, names = list(sys.path), set(sys.modules)
    sys.path.insert(0, str(folder))
    sys.modules.update({other.__name__: other for other in others})
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - names:
            if name in {other.__name__ for other in others} or _lies_in(folder, name):
                del sys.modules[name]


def _lies_in(folder: Path, name: str) -> bool:
    return (getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder))


def module(name: str) -> ModuleType:
    return importlib.import_module(name)
