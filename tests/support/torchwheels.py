"""Small wheels as torch's are: modules, a library, scripts, a licence; and where they are
installed.
"""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tasks.system import environments
from tests.unit.wheels.test_wheelfile import sha256

MODULES = {
    "demo/__init__.py": b"def main():\n    print(1)\n",
    "demo/same.py": b"same = 1\n",
    "demo/old/gone.py": b"gone = 1\n",
    "demo/lib/lib,c10.so": b"\x7fELF one",
    "demo/lib/libtorch.so": b"\x7fELF torch",
    "demo/include/\xe9.h": b"// words\n",
    "top.py": b"top = 1\n",
}
# One of each: another size, the same size, a new file in a new folder, gone with its folder,
# what cannot be compiled
NEWER = {
    **{name: data for name, data in MODULES.items() if name != "demo/old/gone.py"},
    "demo/__init__.py": b"def main():\n    print(22)\n",
    "demo/lib/lib,c10.so": b"\x7fELF two",
    "demo/new/more.py": b"more = 1\n",
    "demo/new/broken.py": b"broken =\n",
    "top.py": b"top = 2\n",
}
METADATA = "Metadata-Version: 2.1\nName: demo\nVersion: {}\nRequires-Python: >=3.8\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
SCRIPTS = "[console_scripts]\ndemorun = demo:main\n"


def make(
    folder: Path,
    version: str,
    modules: Mapping[str, bytes] = MODULES,
    *,
    metadata: str = METADATA,
    described: Mapping[str, str] | None = None,
) -> Path:
    """A wheel of `demo`; `described` are files of its dist-info over the usual, "" for none."""
    info = f"demo-{version}.dist-info"
    usual = {"METADATA": metadata.format(version), "WHEEL": WHEEL, "entry_points.txt": SCRIPTS}
    usual |= {"licenses/LICENSE": "all rights\n", **(described or {})}
    content = {**modules, **{f"{info}/{n}": text.encode() for n, text in usual.items() if text}}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"demo-{version}-py3-none-any.whl"
    quoted = {name: f'"{name}"' if "," in name else name for name in content}
    rows = [f"{quoted[name]},{sha256(data)},{len(data)}\n" for name, data in content.items()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            member = zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6))
            member.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
        archive.writestr(f"{info}/RECORD", "".join([*rows, f"{info}/RECORD,,\n"]))
    return path


_SEEDED = ("pip", "setuptools", "_distutils", "distutils", "pkg_resources", "python", "activate")


@dataclass(frozen=True)
class Venv:
    """An environment, and who installs into it."""

    folder: Path
    installer: str

    @property
    def python(self) -> str:
        return str(environments.find_venv_python(self.folder))

    @cached_property
    def site(self) -> Path:
        return environments.find_site_packages(self.python)

    def run(self, *argv: str) -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        env["SOURCE_DATE_EPOCH"] = "1767312246"  # a script of Windows holds when it was made
        done = subprocess.run(argv, check=True, capture_output=True, text=True, env=env)
        return done.stdout

    def install(self, wheel: Path) -> None:
        if self.installer == "uv":
            self.run(str(environments.find_uv()), "pip", "install", "--python", self.python,
                     "--reinstall-package", "demo", str(wheel))  # fmt: skip
        else:
            self.pip("install", "--force-reinstall", "--no-deps", str(wheel))

    def uninstall(self) -> None:
        if self.installer == "uv":
            self.run(str(environments.find_uv()), "pip", "uninstall", "--python", self.python,
                     "demo")  # fmt: skip
        else:
            self.pip("uninstall", "-y", "demo")

    def pip(self, *argv: str) -> str:
        return self.run(self.python, "-m", "pip", "--disable-pip-version-check", *argv)

    def tree(self) -> dict[str, bytes]:
        """What is installed beside pip, and the scripts: every file by path, but bytecode; folders
        end in a slash.
        """
        top = [*self.site.iterdir(), *environments.find_scripts_folder(self.folder).iterdir()]
        own = [path for path in top if not path.name.startswith(_SEEDED)]
        found = [*own, *(path for folder in own for path in folder.rglob("*"))]
        return {
            f"{path.relative_to(self.folder)}{'/' * path.is_dir()}": _bytes(path)
            for path in found
            if "__pycache__" not in path.parts
        }


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
