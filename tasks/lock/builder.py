"""What the finished build of a profile was made of, as a section of torchyard.lock: read from its
manifests, its checkouts and its environment, the digests of packages from the index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from tasks.core.deps_model import Deps, DepsJob
from tasks.core.errors import BuildError, redact
from tasks.lock.anchored import begin
from tasks.lock.pinning import machine
from tasks.lock.profile import Profile as Opened
from tasks.lock.section import Made, Profile
from tasks.runlog import records
from tasks.stages.extensions.job import Built, ExtensionJob
from tasks.stages.source.job import SourceJob, SourceTree
from tasks.stages.wheel.job import Wheel
from tasks.system import files, git, manifests
from tasks.system.network.listed import Lister
from tasks.system.python import environments, frozen
from tasks.system.python.frozen import Frozen

_AWAY = "its source could not be reached"


class Finished:
    """A profile that is built. Raises `BuildError` where it is not, or the settings moved since.
    `left_out` are the optional extensions that it is without, each with the reason.
    """

    def __init__(self, profile: Opened) -> None:
        self.profile, self.layout = profile, profile.layout
        self.choice = profile.choice
        asked = [stage.job for stage in self.profile.plan.of("extensions")]
        self.left_out = {job.name: why for job in asked if (why := _why_left_out(job))}
        self._require_built()
        if profile.held:  # its digests, too, are then those of the bundle's files
            begin(profile.loaded.settings, profile.layout, profile.held)
        self.deps = manifests.read(self.layout.manifest("deps"), Deps)
        self.lister = Lister(
            environments.find_uv(),
            self.deps.python,
            files.own(self.layout.build / "locking"),
            self.layout.logs / "lock.log",
        )

    def _require_built(self) -> None:
        without = {f"extensions:{name}" for name in self.left_out}
        for stage in self.profile.plan.stages:
            if stage.name in without or (without and stage.room == "install"):
                continue  # an extension that failed keeps all from a person's own environment
            there = all(Path(path).is_file() for path in stage.leaves)
            moved = records.reasons(stage) if there else ("it was not built yet",)
            if moved:
                raise BuildError(
                    f"there is no finished build: {stage.name}: {moved[0]}",
                    todo="doit build, then the same command again",
                )

    def section(self) -> Profile:
        """All of it."""
        python, platform = machine(self.choice)
        return Profile(
            python=python,
            platform=platform,
            strategy=self.choice.strategy,
            release=self.choice.torch.partition("+")[0],
            torch=self._torch(),
            extensions={job.name: self._extension(job) for job in self.extensions},
            packages=self._locked("deps"),
            toolkit=dict(self.lister.locked(self.in_toolkit)),
        )

    @cached_property
    def extensions(self) -> tuple[ExtensionJob, ...]:
        """The jobs of those that were built."""
        jobs = (stage.job for stage in self.profile.plan.of("extensions"))
        return tuple(job for job in jobs if job.name not in self.left_out)

    @cached_property
    def in_toolkit(self) -> tuple[Frozen, ...]:
        """What lies in the toolkit's own folder."""
        return tuple(frozen.frozen(self.layout.build / "toolkit").values())

    @cached_property
    def groups(self) -> Mapping[str, tuple[Frozen, ...]]:
        """The packages of an index by who asked for them first: "deps", "torch", an extension.
        What nobody names (pip, a compiler cache) is with deps.
        """
        here, left = self._here, {one.name for one in self._here.values() if not one.is_file}
        groups: dict[str, tuple[Frozen, ...]] = {}
        for name, roots in self._roots(here):
            brought = left & frozen.asked_by(roots, here)
            groups[name] = tuple(here[one] for one in sorted(brought))
            left -= brought
        groups["deps"] += tuple(here[one] for one in sorted(left))
        return groups

    @cached_property
    def _here(self) -> Mapping[str, Frozen]:
        overlay = self.deps.overlay
        return frozen.frozen(Path(overlay) if overlay else frozen.site_of(self.layout.venv))

    def _roots(self, here: Mapping[str, Frozen]) -> Iterator[tuple[str, tuple[str, ...]]]:
        job: DepsJob = self.profile.plan.of("deps")[0].job
        yield "deps", (*job.tools, *job.toolkit_packages)
        yield "torch", here["torch"].requires if "torch" in here else ()
        for extension in self.extensions:
            built = manifests.read(extension.manifest, Built)
            name = built.artifact.name.partition("-")[0] if built.artifact else ""
            found = here.get(canonicalize_name(name))
            yield extension.name, found.requires if found else ()

    def _locked(self, group: str, index: str = "") -> dict[str, tuple[str, ...]]:
        return dict(self.lister.locked(self.groups[group], index))

    def _torch(self) -> Made:
        if self.choice.strategy == "existing" or not self.profile.plan.of("wheel"):
            return Made()
        wheel = manifests.read(self.layout.manifest("wheel"), Wheel)
        packages = self._locked("torch", self.choice.index)
        for stage in self.profile.plan.of("source"):
            return Made(**self._tree(stage.job), packages=packages)
        if wheel.artifact is None:
            return Made(packages=packages)
        return Made(wheel=wheel.artifact.name, sha256=wheel.artifact.sha256, packages=packages)

    def _tree(self, job: SourceJob) -> dict[str, Any]:
        tree = manifests.read(job.manifest, SourceTree)
        if job.kind == "path":
            return {"path": self._relative(job.location)}
        if job.kind == "tarball":
            known = {"tarball": redact(job.location), "sha256": tree.digest}
        else:
            known = {"git": redact(job.location), "ref": job.ref, "commit": tree.commit}
        return {**known, "submodules": dict(tree.submodules), "patches": tree.patches}

    def _extension(self, job: ExtensionJob) -> Made:
        built = manifests.read(job.manifest, Built)
        if built.status != "built":
            raise BuildError(
                f"there is no finished build: extensions:{job.name}: {_AWAY}",
                todo="doit build, then the same command again; optional: true, where it may be "
                "left out",
            )
        requires = frozen.frozen(job.work / "requires").values()
        return Made(
            **self._source(job, built.source),
            requires=dict(self.lister.locked(one for one in requires if not one.is_file)),
            packages=self._locked(job.name),
        )

    def _source(self, job: ExtensionJob, source: Mapping[str, str]) -> dict[str, Any]:
        patches = tuple(filter(None, source.get("patches", "").split(", ")))
        match job.kind:
            case "path":
                return {"path": self._relative(job.location), "patches": patches}
            case "wheel":
                return {"wheel": source["wheel"], "sha256": source["sha256"]}
            case "sdist":
                return {"sdist": job.location, "sha256": source["sha256"], "patches": patches}
        known = {"git": source["git"], "ref": job.ref, "commit": source["commit"]}
        submodules = dict(git.state(job.clone).submodules) if job.submodules else {}
        return {**known, "submodules": submodules, "patches": patches}

    def _relative(self, location: str) -> str:
        """Another person has it elsewhere: of a folder outside the checkout only its name."""
        path = Path(location)
        inside = path.is_relative_to(self.layout.root)
        return path.relative_to(self.layout.root).as_posix() if inside else f"…/{path.name}"


def _why_left_out(job: ExtensionJob) -> str:
    """Of an optional one that is not there; "" for all others."""
    if not job.optional:
        return ""
    if not Path(job.manifest).is_file():
        return "its stage did not come to its end"
    return "" if manifests.read(job.manifest, Built).status == "built" else _AWAY
