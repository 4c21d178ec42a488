"""A build that is there, for validate to look at: manifests, a torch folder, one extension.

What it runs are stand-ins: an interpreter of a few lines of shell, and cuobjdump. Without the
latter the libraries are read, which then have to be real.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tasks.core.deps_model import DepsManifest, Program
from tasks.core.model import Arch, Layout, ValidationResult
from tasks.core.project import Project
from tasks.stages.env.model import Environment
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.validate.model import SmokeCheck, ValidateJob, Validation
from tasks.stages.validate.plan import CHECKS
from tasks.stages.validate.torch_checks_io import _PROBE_CHECKS
from tasks.stages.wheel.model import Wheel
from tasks.system import manifests
from tests.support.checkout import ROOT
from tests.support.fatbins import library

NONE = Program("", "")
ALL_GOOD = ["import", *_PROBE_CHECKS, "smoke: import"]


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def says(name: str, status: str = "passed", detail: str = "") -> str:
    text = json.dumps({"name": name, "status": status, "detail": detail, "remedy": ""})
    return f"echo '{text}'"


def probing(names: Sequence[str], gpu: str, end: str = "") -> str:
    """An interpreter: the probe prints what it is told to, any other script is run by sh."""
    lines = [says("import"), says("gpu", "data", gpu), says("archs", "data", "sm_90 sm_120")]
    lines += [says(name) for name in names if name != "import"]
    return '[ "$1" = -X ] || exec sh "$@"\n' + "\n".join([*lines, end])


class FlatLayout(Layout):
    """A layout with the outputs of the build in `root`."""

    build = property(lambda layout: layout.root)


class Yard:
    """The folder of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.library("torch/lib/libtorch_cuda.so", "9.0", "12.0")
        self.library("smoke.so", "12.0")
        self.deps(cuobjdump=None)
        self.smoke("echo right")
        publish(folder / "extension-env.json", Environment({}, {}, (), ":"))
        publish(folder / "smoke.json", self.built())

    def library(self, name: str, *images: str) -> Path:
        """A library that holds these."""
        return library(self.folder / name, *images)

    def built(self) -> BuiltExtension:
        return BuiltExtension(
            "smoke", "built", {}, None, (str(self.folder / "smoke.so"),), ("smoke",), {}
        )

    def listing(self, sm: str) -> None:
        """A cuobjdump that lists one image."""
        self.deps(program(self.folder / "cuobjdump", f'echo "ELF file    1: x.1.{sm}.cubin"'))

    def deps(self, cuobjdump: str | None) -> None:
        made = DepsManifest(
            python="",
            python_version="3.11.7",
            identity="",
            overlay=None,
            scripts="",
            toolkit=None,
            cuobjdump=cuobjdump,
            cc=NONE,
            cxx=NONE,
            cmake=NONE,
            ninja=NONE,
            git=None,
        )
        publish(self.folder / "deps.json", made)

    def smoke(self, script: str) -> None:
        (self.folder / "check.py").write_text(script)

    def python(self, script: str, cuda: str | None = "13.2") -> None:
        self.torch(program(self.folder / "python", script), cuda)

    def torch(self, python: str, cuda: str | None = "13.2") -> None:
        """The torch, and who runs it."""
        folder = str(self.folder / "torch")
        made = Wheel("2.15.0", "2.15.0", cuda, folder, python, "wheel")
        publish(self.folder / "wheel.json", made)

    def job(self, **changes: object) -> ValidateJob:
        folder = self.folder
        made = ValidateJob(
            layout=FlatLayout(Project(folder, ROOT, folder, folder), "mine", folder),
            system="linux",
            checks=CHECKS,
            timeout=60,
            targets=(Arch(12, 0),),
            extensions={"smoke": folder / "smoke.json"},
            smokes={"smoke": SmokeCheck(folder / "check.py", gpu=True)},
            stages=(),
            manifest=folder / "validate.json",
            junit=folder / "validate.xml",
            log=folder / "logs" / "validate.log",
        )
        return replace(made, **changes)  # type: ignore[arg-type]  # a test knows the fields

    def written(self) -> dict[str, ValidationResult]:
        found = manifests.read_manifest(self.folder / "validate.json", Validation)
        return {check.name: check for check in found.checks}


def publish(path: Path, value: object) -> None:
    manifests.write_manifest(path, value)
