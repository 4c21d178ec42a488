"""Builds by a stage's own action, without doit: a build folder with the manifests that it reads."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasks.core.deps_model import CompilerCache, DepsManifest, Program
from tasks.core.model import Arch, Interpreter, Layout
from tasks.core.project import Project
from tasks.core.resolution import Resolution, ToolkitResolution
from tasks.settings.schema import parse_settings
from tasks.stages.compile.model import CompileJob
from tasks.stages.compile.plan import plan as plan_compile
from tasks.stages.env.model import CacheEnvironment, Environment
from tasks.stages.extensions.extension_build_io import build_extension
from tasks.stages.extensions.extension_sources_io import fetch_source
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.extensions.plan import plan_extension
from tasks.stages.source.model import SourceTree
from tasks.system import environments, files, manifests
from tasks.system.hardware import toolchain
from tests.support.checkout import KNOWLEDGE, ROOT
from tests.support.toytree import Backend, make_tree

CHOICE = Resolution(
    system="linux",
    strategy="source",
    strategy_why="",
    targets=(),
    targets_why="",
    ptx=False,
    torch="2.6.0",
    cuda=None,
    toolkit=ToolkitResolution("none"),
    python=Interpreter(sys.executable, "3.12.0"),
)
# An official wheel for one card
PREBUILT = replace(
    CHOICE,
    strategy="prebuilt",
    targets=(Arch(12, 0),),
    torch="2.15.0",
    cuda="13.2",
    toolkit=ToolkitResolution("pypi"),
    python=Interpreter("/usr/bin/python3", "3.11.7"),
)


@dataclass(frozen=True)
class Yard:
    """A build folder with the manifests that compile and extensions read."""

    layout: Layout
    tree: Path
    venv: Path

    def job(self, **build: object) -> CompileJob:
        """compile, with settings of `build`; two jobs where nothing else is asked for."""
        settings = parse_settings({"build": {"jobs": 2, **build}})
        flags = {name: str(int(bool(value))) for name, value in settings.build.flags.items()}
        variables = {**flags, **settings.build.env, "CMAKE_BUILD_TYPE": settings.build.type}
        self._publish("source", SourceTree(str(self.tree), "path", "", {}, "", ""))
        self._publish("env", self._environment(variables))
        job = plan_compile(settings, self.layout, CHOICE).job
        assert isinstance(job, CompileJob)
        return job

    def extension(self, folder: Path, jobs: object = "auto", **env: str) -> ExtensionJob:
        """The extension in `folder`, with variables of its own."""
        listed = [{"name": "toy", "path": str(folder), "imports": ["toyext"], "env": env}]
        settings = parse_settings({"build": {"jobs": jobs}, "extensions": listed})
        self._publish("extension-env", self._environment({}))
        self._publish("cache-env", CacheEnvironment(CompilerCache(), {}, {}, {}))
        (asked,) = settings.extensions
        job = plan_extension(asked, settings, self.layout, CHOICE, KNOWLEDGE).job
        assert isinstance(job, ExtensionJob)
        return job

    def _environment(self, variables: dict[str, str]) -> Environment:
        path = {"PATH": (str(environments.find_scripts_folder(self.venv)),)}
        return Environment(set=variables, prepend=path, unset=(), separator=os.pathsep)

    def _publish(self, name: str, value: Any) -> None:
        manifests.write_manifest(self.layout.compute_manifest_path("deps"), deps(self.venv))
        manifests.write_manifest(self.layout.compute_manifest_path(name), value)


def make_yard(folder: Path, venv: Path, backend: Backend = "setup_py", profile: str = "p") -> Yard:
    """A checkout in `folder`, and the toy tree beside it."""
    layout = Layout(Project.of_checkout(folder), profile, folder / "wheelhouse")
    knowledge = layout.project.config / "knowledge"
    shutil.copytree(ROOT / "config" / "knowledge", knowledge, dirs_exist_ok=True)
    files.create_owned_folder(layout.build)
    return Yard(layout, make_tree(folder / "pytorch", backend=backend), venv)


def built(job: ExtensionJob) -> Path:
    """The extension's wheel, from a fresh copy of its source."""
    found = manifests.read_manifest(job.layout.compute_manifest_path("deps"), DepsManifest)
    tree, _ = fetch_source(job, found)
    return build_extension(job, found, tree)


def script(path: Path, text: str) -> str:
    """A program of a shell's words."""
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def deps(venv: Path) -> DepsManifest:
    """What deps leaves where `venv` has the build tools."""
    suffix = ".exe" if sys.platform == "win32" else ""
    scripts = environments.find_scripts_folder(venv)
    found = {name: told(str(scripts / f"{name}{suffix}")) for name in ("cmake", "ninja")}
    return DepsManifest(
        python=str(environments.find_venv_python(venv)),
        python_version="3.12.0",
        identity="1",
        overlay=None,
        scripts=str(scripts),
        toolkit=None,
        cuobjdump=None,
        cc=Program("", ""),
        cxx=Program("", ""),
        git=None,
        cmake=found["cmake"],
        ninja=found["ninja"],
    )


def told(path: str) -> Program:
    """A program with the version it tells."""
    found = toolchain.find_program(path)
    assert found
    return found
