"""The install stage by its own action: a build folder with the manifests that it reads, wheels, and
a person's environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tasks.core.deps_model import DepsManifest, Program
from tasks.core.model import Layout, Stage
from tasks.core.project import Project
from tasks.settings.schema import parse_settings
from tasks.stages.env.model import Environment
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.install import run
from tasks.stages.install.model import Installation, InstallJob
from tasks.stages.install.plan import plan
from tasks.stages.wheel.model import Wheel
from tasks.system import environments, files, manifests
from tests.support import smallwheels
from tests.support.actionyard import CHOICE
from tests.support.smallwheels import Theirs

_NONE = Program("", "")
_DEPS = DepsManifest(
    python=sys.executable,
    python_version="3.12.0",
    identity="1",
    overlay=None,
    scripts="",
    toolkit=None,
    cuobjdump=None,
    cc=_NONE,
    cxx=_NONE,
    cmake=_NONE,
    ninja=_NONE,
    git=None,
)


@dataclass(frozen=True)
class InstallYard:
    """A profile of the checkout `root`, which installs into `theirs`; `index` is a folder."""

    root: Path
    theirs: Theirs
    profile: str = "p"

    @property
    def layout(self) -> Layout:
        return Layout(Project.of_checkout(self.root), self.profile, self.root / "wheelhouse")

    @property
    def build(self) -> Path:
        return Path(self.layout.build)

    @property
    def index(self) -> Path:
        return self.root / "index"

    @property
    def replaced(self) -> Path:
        return self.build / "replaced"

    def torch(self, version: str, says: str = "", **more: Any) -> None:
        """The torch that was built last; `says` is its own version where the wheel's is less."""
        files.create_owned_folder(self.build)
        if says:
            more["code"] = f"__version__ = {says!r}"
        made = smallwheels.torch(self.root / "wheelhouse", version, **more)
        release = version.partition("+")[0]
        known = files.read_artifact(made)
        wheel = Wheel(says or version, release, None, "/venv/torch", sys.executable, "wheel", known)
        manifests.write_manifest(self.layout.compute_manifest_path("wheel"), wheel)

    def extension(
        self, version: str = "1.0", code: str = "answer = 42\n", requires: Sequence[str] = ()
    ) -> None:
        """An extension, built against it."""
        shelf = self.root / "wheelhouse" / "for-torch"
        made = smallwheels.wheel(shelf, "toyext", version, {"toyext/__init__.py": code}, requires)
        built = BuiltExtension("toy", "built", {}, files.read_artifact(made), (), ("toyext",))
        manifests.write_manifest(self.layout.compute_manifest_path("extensions:toy"), built)

    def job(self, into: str = "") -> InstallJob:
        self.index.mkdir(exist_ok=True)
        python = into or self.theirs.python
        asked = parse_settings({"install": {"into": python}})
        scripts = {"PATH": (str(environments.find_scripts_folder(self.theirs.folder)),)}
        env = Environment(set={}, prepend=scripts, unset=(), separator=os.pathsep)
        manifests.write_manifest(self.layout.compute_manifest_path("extension-env"), env)
        manifests.write_manifest(self.layout.compute_manifest_path("deps"), _DEPS)
        choice = replace(CHOICE, index=str(self.index))
        built = self.layout.compute_manifest_path("extensions:toy")
        toy = Stage("extensions:toy", "extensions", "", SimpleNamespace(name="toy"), {}, (built,))
        before = [toy] if Path(built).is_file() else []
        job = plan(asked, self.layout, choice, before, {"": 1}).job
        assert isinstance(job, InstallJob)
        return job

    def install(self) -> Installation:
        """As doit does it."""
        job = self.job()
        (installed,) = run.run(job)
        manifests.write_manifest(job.manifest, installed)
        return installed
