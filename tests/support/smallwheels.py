"""Small wheels by any name, as torch's and an extension's are; and environments for them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tasks.system import environments
from tests.unit.wheels.test_wheelfile import sha256

_WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"


def wheel(  # noqa: PLR0917 - a wheel is that much
    folder: Path,
    name: str,
    version: str,
    content: Mapping[str, bytes | str],
    requires: Sequence[str] = (),
    scripts: str = "",
    tag: str = "py3-none-any",
) -> Path:
    """Write it; `scripts` are lines of [console_scripts]."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    described = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        "WHEEL": _WHEEL.format(pure=str(tag.endswith("any")).lower(), tag=tag),
        **({"entry_points.txt": f"[console_scripts]\n{scripts}\n"} if scripts else {}),
    }
    inside = {**content, **{f"{info}/{file}": text for file, text in described.items()}}
    data = {path: text.encode() if isinstance(text, str) else text for path, text in inside.items()}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    rows = [f"{one},{sha256(text)},{len(text)}\n" for one, text in data.items()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for one, text in data.items():
            archive.writestr(one, text)
        archive.writestr(f"{info}/RECORD", "".join([*rows, f"{info}/RECORD,,\n"]))
    return path


def torch(
    folder: Path,
    version: str,
    *,
    requires: Sequence[str] = (),
    code: str = "",
    tag: str = "py3-none-any",
    library: bytes = b"",
) -> Path:
    """A torch of a few files: each release has one more of its own, and they share the others. Its
    library is none that can be read, unless one is given.
    """
    content: dict[str, bytes | str] = {
        "torch/__init__.py": f"from torch.version import __version__\n{code}\n",
        "torch/version.py": f"__version__ = '{version}'\ncuda = None\n",
        "torch/same.py": "same = 1\n",
        "torch/lib/libtorch.so": library or b"\x7fELF " + version.encode(),
        f"torch/only/of_{version.partition('+')[0].replace('.', '_')}.py": "only = 1\n",
        "torchgen/__init__.py": "",
    }
    return wheel(folder, "torch", version, content, requires, "torchrun = torch:main", tag)


@dataclass(frozen=True)
class Theirs:
    """A person's environment."""

    folder: Path

    @cached_property
    def python(self) -> str:
        return str(environments.find_venv_python(self.folder))

    @cached_property
    def site(self) -> Path:
        return environments.find_site_packages(self.python)

    def install(self, *wanted: Path | str) -> None:
        uv = environments.find_uv() or "uv"
        argv = [uv, "pip", "install", "-q", "--no-deps", "--no-index", "--reinstall"]
        _run(*argv, "--python", self.python, *map(str, wanted))

    def uninstall(self, name: str) -> None:
        _run(
            environments.find_uv() or "uv", "pip", "uninstall", "-q", "--python", self.python, name
        )

    def says(self, code: str) -> str:
        return _run(self.python, "-B", "-c", code).strip()

    def compiles(self, code: str) -> None:
        """Run it, and leave bytecode."""
        _run(self.python, "-c", code)

    def tree(self) -> dict[str, str]:
        """Every file by path: its mode and digest, or where it leads; and every folder. uv's lock
        is nobody's.
        """
        found = (path for path in self.folder.rglob("*") if path.name != ".lock")
        return {str(path.relative_to(self.folder)): _told(path) for path in found}


def _told(path: Path) -> str:
    if path.is_symlink():
        return f"→ {path.readlink()}"
    mode = oct(path.stat().st_mode)
    return mode if path.is_dir() else f"{mode} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def theirs(folder: Path) -> Theirs:
    """An empty one."""
    _run(environments.find_uv() or "uv", "venv", "-q", "--python", sys.executable, str(folder))
    return Theirs(folder)


def _run(*argv: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout
