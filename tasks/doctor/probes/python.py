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
from tasks.doctor.host_facts import BuildTorch, InstalledExtension, ProbeRequest, ShadowingTorch
from tasks.knowledge.cppextension import CPP_EXTENSION_PATH, parse_cpp_extension
from tasks.system import shell, trees
from tasks.system.python import pythons
from tasks.system.python.frozen import list_site_folders


def read_python_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """`python_bits`, `torch`, `without_cuda`, `shadows`, `installed`."""
    found: dict[str, Any] = {}
    if "python" in wanted:
        found["python_bits"] = _read_python_bits(asked.host.python.path)
    if "torch-checks" in wanted and asked.build:
        found["torch"] = _find_build_torch(asked)
        found["without_cuda"] = frozenset(_list_extensions_without_cuda(asked))
    if "torch-shadow" in wanted:
        found["shadows"] = tuple(_find_shadowing_torches(asked))
    if "names" in wanted and asked.build:
        found["installed"] = tuple(_find_installed_extensions(asked))
    return found


def _read_python_bits(python: str) -> int | None:
    """None where it does not run."""
    if python in (sys.executable, getattr(sys, "_base_executable", "")):
        return struct.calcsize("P") * 8
    query = "import struct; print(struct.calcsize('P') * 8)"
    command = Command((python, "-c", query), shell.build_host_env(), "ask Python", timeout=10)
    try:
        return int(shell.capture_output(command))
    except (CommandFailedError, MissingToolError, ValueError):
        return None


def _find_build_torch(asked: ProbeRequest) -> BuildTorch:
    venv = list_site_folders(asked.venv) if asked.venv else ()
    places = [Path(asked.torch).parent] if asked.torch else [*venv]
    found = pythons.find_torch(places)
    if found is None:
        return BuildTorch()
    try:
        text = (Path(found.folder) / CPP_EXTENSION_PATH).read_text(
            encoding="utf-8", errors="replace"
        )
    except OSError:
        text = ""
    return BuildTorch(found.version, found.cuda, parse_cpp_extension(text))


def _list_extensions_without_cuda(asked: ProbeRequest) -> Iterator[str]:
    for name, folder in asked.sources:
        with contextlib.suppress(OSError):  # who copies it tells what is wrong with it
            if not trees.has_cuda_sources(folder):
                yield name


def _find_shadowing_torches(asked: ProbeRequest) -> Iterator[ShadowingTorch]:
    for entry in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        yield from _find_torch_in_folder("PYTHONPATH", Path(entry))
    if conda := os.environ.get("CONDA_PREFIX"):
        for folder in list_site_folders(Path(conda)):
            yield from _find_torch_in_folder("conda", folder)
    yield from _find_torch_in_folder("user site", _find_user_site(asked.host.python))
    for name in ("torch.py", "torch/__init__.py"):
        if (found := Path(asked.root) / name).is_file():
            yield ShadowingTorch("checkout", str(found))


def _find_torch_in_folder(how: Any, folder: Path) -> Iterator[ShadowingTorch]:
    if found := pythons.find_torch([folder]):
        yield ShadowingTorch(how, found.folder, found.version)


def _find_user_site(python: Interpreter) -> Path:
    """Where `pip install --user` puts it (https://docs.python.org/3/library/site.html)."""
    major, minor = python.version.split(".")[:2]
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", "~")) / f"Python/Python{major}{minor}/site-packages"
    base = os.environ.get("PYTHONUSERBASE") or "~/.local"
    home = os.path.expanduser(base)  # noqa: PTH111 - it knows what to do without a home
    return Path(home) / f"lib/python{major}.{minor}/site-packages"


def _find_installed_extensions(asked: ProbeRequest) -> Iterator[InstalledExtension]:
    """Beside a torch that was there already: into that interpreter others install, too. What came
    from an index has no direct_url.json (PEP 610).
    """
    python = asked.host.python
    folders = [Path(python.torch.folder).parent] if python.torch else []
    for folder in [*folders, _find_user_site(python)]:
        for name in asked.distributions:
            for info in folder.glob(f"{name.replace('-', '_')}-*.dist-info"):
                version = info.name.removesuffix(".dist-info").rpartition("-")[2]
                indexed = not (info / "direct_url.json").is_file()
                yield InstalledExtension(name, version, str(folder), indexed)
