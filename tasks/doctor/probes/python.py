"""The interpreter that is built for, other torches near it, and packages under another's name."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command, Interpreter
from tasks.doctor.host_facts import Asked, Installed, Shadow, TorchSeen
from tasks.knowledge.cppextension import PLACE, parse
from tasks.system import shell, trees
from tasks.system.python import pythons
from tasks.system.python.frozen import sites


def look(asked: Asked, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """`python_bits`, `torch`, `without_cuda`, `shadows`, `installed`."""
    found: dict[str, Any] = {}
    if "python" in wanted:
        found["python_bits"] = _bits(asked.host.python.path)
    if "torch-checks" in wanted and asked.build:
        found["torch"] = _built_against(asked)
        found["without_cuda"] = frozenset(_without_cuda(asked))
    if "torch-shadow" in wanted:
        found["shadows"] = tuple(_shadows(asked))
    if "names" in wanted and asked.build:
        found["installed"] = tuple(_installed(asked))
    return found


def _bits(python: str) -> int | None:
    """None where it does not run."""
    if python in (sys.executable, getattr(sys, "_base_executable", "")):
        return struct.calcsize("P") * 8
    query = "import struct; print(struct.calcsize('P') * 8)"
    command = Command((python, "-c", query), shell.host_env(), "ask Python", timeout=10)
    try:
        return int(shell.capture(command))
    except (CommandFailedError, MissingToolError, ValueError):
        return None


def _built_against(asked: Asked) -> TorchSeen:
    venv = sites(asked.venv) if asked.venv else ()
    places = [Path(asked.torch).parent] if asked.torch else [*venv]
    found = pythons.torch_in(places)
    if found is None:
        return TorchSeen()
    try:
        text = (Path(found.folder) / PLACE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return TorchSeen(found.version, found.cuda, parse(text))


def _without_cuda(asked: Asked) -> Iterator[str]:
    for name, folder in asked.sources:
        with contextlib.suppress(OSError):  # who copies it tells what is wrong with it
            if not trees.has_cuda(folder):
                yield name


def _shadows(asked: Asked) -> Iterator[Shadow]:
    for entry in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        yield from _torch("PYTHONPATH", Path(entry))
    if conda := os.environ.get("CONDA_PREFIX"):
        for folder in sites(Path(conda)):
            yield from _torch("conda", folder)
    yield from _torch("user site", _user_site(asked.host.python))
    for name in ("torch.py", "torch/__init__.py"):
        if (found := Path(asked.root) / name).is_file():
            yield Shadow("checkout", str(found))


def _torch(how: Any, folder: Path) -> Iterator[Shadow]:
    if found := pythons.torch_in([folder]):
        yield Shadow(how, found.folder, found.version)


def _user_site(python: Interpreter) -> Path:
    """Where `pip install --user` puts it (https://docs.python.org/3/library/site.html)."""
    major, minor = python.version.split(".")[:2]
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", "~")) / f"Python/Python{major}{minor}/site-packages"
    base = os.environ.get("PYTHONUSERBASE") or "~/.local"
    home = os.path.expanduser(base)  # noqa: PTH111 - it knows what to do without a home
    return Path(home) / f"lib/python{major}.{minor}/site-packages"


def _installed(asked: Asked) -> Iterator[Installed]:
    """Beside a torch that was there already: into that interpreter others install, too. What came
    from an index has no direct_url.json (PEP 610).
    """
    python = asked.host.python
    folders = [Path(python.torch.folder).parent] if python.torch else []
    for folder in [*folders, _user_site(python)]:
        for name in asked.distributions:
            for info in folder.glob(f"{name.replace('-', '_')}-*.dist-info"):
                version = info.name.removesuffix(".dist-info").rpartition("-")[2]
                indexed = not (info / "direct_url.json").is_file()
                yield Installed(name, version, str(folder), indexed)
