"""Create a section of torchyard.lock from a finished build, with digests from the package index."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from tasks.core.deps_model import DepsJob, DepsManifest
from tasks.core.errors import TorchyardError, redact_secrets
from tasks.lock.lock_file import LockedInputs, LockSection, identify_platform
from tasks.lock.opened_profile_io import Profile as Opened
from tasks.lock.opened_profile_io import activate_sources
from tasks.runlog import stage_record_io
from tasks.stages.extensions.model import BuiltExtension, ExtensionJob
from tasks.stages.source.model import SourceJob, SourceTree
from tasks.stages.wheel.model import Wheel
from tasks.system import environments, files, manifests
from tasks.system.environments import InstalledPackage
from tasks.system.git import checkout_state
from tasks.system.package_installer import DigestLister

_UNREACHABLE = "its source could not be reached"
_BUILD_HINT = "run: doit build, then the same command again"


class FinishedBuild:
    """A finished build of a profile. Raises `TorchyardError` if a stage is not up to date.

    `extensions` are the jobs of the built extensions. `left_out` has the reason for each
    optional extension that was not built.
    """

    def __init__(self, profile: Opened) -> None:
        self.profile, self.layout, self.choice = profile, profile.layout, profile.choice
        jobs = [stage.job for stage in profile.plan.find_stages("extensions")]
        self.left_out = {job.name: reason for job in jobs if (reason := _explain_left_out(job))}
        self.extensions = [job for job in jobs if job.name not in self.left_out]
        left_out_names = {f"extensions:{name}" for name in self.left_out}
        for stage in profile.plan.stages:
            if stage.name in left_out_names or (left_out_names and stage.kind == "install"):
                continue  # a missing extension prevents the install
            reasons: Sequence[str] = ("it was not built yet",)
            if all(Path(path).is_file() for path in stage.outputs):
                reasons = stage_record_io.find_rebuild_reasons(stage)
            if reasons:
                message = f"the build is not finished: {stage.name}: {reasons[0]}"
                raise TorchyardError(message, hint=_BUILD_HINT)
        if profile.pinned_plan:  # a bundle or a mirror replaces the index
            activate_sources(profile.loaded.settings, profile.layout, profile.pinned_plan)
        self.deps = manifests.read_manifest(self.layout.compute_manifest_path("deps"), DepsManifest)
        folder = files.create_owned_folder(self.layout.build / "locking")
        log = self.layout.logs / "lock.log"
        self.lister = DigestLister(environments.find_uv(), self.deps.python, folder, log)

    def build_section(self) -> LockSection:
        """Return the lock section for this build."""
        python, platform = identify_platform(self.choice)
        toolkit = environments.read_installed_packages(self.layout.build / "toolkit")
        return LockSection(
            python=python,
            platform=platform,
            strategy=self.choice.strategy,
            release=self.choice.torch.partition("+")[0],
            facts=self.choice.facts,
            torch=self._lock_torch(),
            extensions={job.name: self._lock_extension(job) for job in self.extensions},
            packages=self._lock_group("deps"),
            toolkit=dict(self.lister.find_digests(tuple(toolkit.values()))),
        )

    @cached_property
    def groups(self) -> Mapping[str, tuple[InstalledPackage, ...]]:
        """Return the packages installed from an index, for "deps", "torch" and each extension.

        A package belongs to the first of these that requires it, or to "deps" if none does.
        """
        overlay = self.deps.overlay
        site = Path(overlay) if overlay else environments.find_site_folder(self.layout.venv)
        installed = environments.read_installed_packages(site)
        remaining = {package.name for package in installed.values() if not package.is_file}
        job: DepsJob = self.profile.plan.find_stages("deps")[0].job
        requirements = {
            "deps": (*job.tools, *job.toolkit_packages),
            "torch": installed["torch"].requires if "torch" in installed else (),
        }
        for extension in self.extensions:
            built = manifests.read_manifest(extension.manifest, BuiltExtension)
            name = built.artifact.name.partition("-")[0] if built.artifact else ""
            package = installed.get(canonicalize_name(name))
            requirements[extension.name] = package.requires if package else ()
        groups: dict[str, tuple[InstalledPackage, ...]] = {}
        for name, roots in requirements.items():
            required = remaining & environments.resolve_required_names(roots, installed)
            groups[name] = tuple(installed[package] for package in sorted(required))
            remaining -= required
        groups["deps"] += tuple(installed[package] for package in sorted(remaining))
        return groups

    def _lock_group(self, group: str, index: str = "") -> dict[str, tuple[str, ...]]:
        return dict(self.lister.find_digests(self.groups[group], index))

    def _lock_torch(self) -> LockedInputs:
        if self.choice.strategy == "existing" or not self.profile.plan.find_stages("wheel"):
            return LockedInputs()
        wheel = manifests.read_manifest(self.layout.compute_manifest_path("wheel"), Wheel)
        packages = self._lock_group("torch", self.choice.index)
        for stage in self.profile.plan.find_stages("source"):
            return LockedInputs(**self._lock_source_tree(stage.job), packages=packages)
        if wheel.artifact is None:
            return LockedInputs(packages=packages)
        name, sha256 = wheel.artifact.name, wheel.artifact.sha256
        return LockedInputs(wheel=name, sha256=sha256, packages=packages)

    def _lock_source_tree(self, job: SourceJob) -> dict[str, Any]:
        tree = manifests.read_manifest(job.manifest, SourceTree)
        location = redact_secrets(job.location)
        match job.kind:
            case "path":
                return {"path": self._format_relative_path(job.location)}
            case "tarball":
                source = {"tarball": location, "sha256": tree.digest}
            case "git":
                source = {"git": location, "ref": job.ref, "commit": tree.commit}
        return {**source, "submodules": dict(tree.submodules), "patches": tree.patches}

    def _lock_extension(self, job: ExtensionJob) -> LockedInputs:
        extension = manifests.read_manifest(job.manifest, BuiltExtension)
        if extension.status != "built":
            message = f"the build is not finished: extensions:{job.name}: {_UNREACHABLE}"
            hint = f"{_BUILD_HINT}; to allow builds without this extension, set optional: true"
            raise TorchyardError(message, hint=hint)
        requires = environments.read_installed_packages(job.work / "requires").values()
        digests = self.lister.find_digests(one for one in requires if not one.is_file)
        source = self._lock_extension_source(job, extension.source)
        packages = self._lock_group(job.name)
        return LockedInputs(**source, requires=dict(digests), packages=packages)

    def _lock_extension_source(self, job: ExtensionJob, built: Mapping[str, str]) -> dict[str, Any]:
        patches = tuple(filter(None, built.get("patches", "").split(", ")))
        match job.kind:
            case "path":
                return {"path": self._format_relative_path(job.location), "patches": patches}
            case "wheel":
                return {"wheel": built["wheel"], "sha256": built["sha256"]}
            case "sdist":
                return {"sdist": job.location, "sha256": built["sha256"], "patches": patches}
        git_source = {"git": built["git"], "ref": job.ref, "commit": built["commit"]}
        submodules = (
            dict(checkout_state.read_git_state(job.clone).submodules) if job.submodules else {}
        )
        return {**git_source, "submodules": submodules, "patches": patches}

    def _format_relative_path(self, location: str) -> str:
        """Return the path relative to the project, or `…/NAME` for a path outside."""
        identity = self.layout.project.identify_location(location)
        if identity != location:
            return identity
        path, root = Path(location), self.layout.root
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else f"…/{path.name}"


def _explain_left_out(job: ExtensionJob) -> str:
    """Return why an optional extension was not built, "" for any other extension."""
    if not job.optional:
        return ""
    if not Path(job.manifest).is_file():
        return "its stage did not finish"
    status = manifests.read_manifest(job.manifest, BuiltExtension).status
    return "" if status == "built" else _UNREACHABLE
