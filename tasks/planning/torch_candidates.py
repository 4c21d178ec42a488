"""Find the torch of each strategy: an official wheel, a source build, or an existing torch."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.core.errors import KnowledgeError, SettingsError, redact_secrets
from tasks.core.model import Arch, Host, Interpreter, Strategy
from tasks.core.resolution import UnsatisfiableError
from tasks.knowledge import Knowledge
from tasks.knowledge.cuda_toolkits import (
    is_known_to_fail,
    list_capable_toolkits,
    list_published_toolkits,
)
from tasks.knowledge.facts import Release
from tasks.knowledge.torch_releases import (
    explain_missing_wheel,
    find_release,
    is_python_supported,
    select_official_wheel,
)
from tasks.knowledge.versions import find_release_channel, format_published_version
from tasks.planning.toolkit_resolution import is_toolkit_obtainable
from tasks.settings.schema import Settings


@dataclass(frozen=True)
class TorchCandidate:
    """A torch that is available.

    `why` is the reason for its strategy. `cuda` is "13.2", None for the CPU. `index` is the package
    index of a wheel, "" for the default one.
    """

    strategy: Strategy
    why: str
    version: str
    cuda: str | None
    index: str = ""


def find_existing_torch(python: Interpreter) -> TorchCandidate:
    """Return the torch that is installed for an interpreter. Raises `SettingsError`."""
    if python.torch is None:
        raise SettingsError(
            f"{python.path} holds no torch",
            location="python",
            hint="name the interpreter that has it (python: /path/to/python), "
            "or choose another torch.strategy",
        )
    torch = python.torch
    return TorchCandidate(
        "existing", f"asked for: torch {torch.version} in {python.path}", torch.version, torch.cuda
    )


def find_prebuilt_torch(
    settings: Settings, host: Host, knowledge: Knowledge, targets: tuple[Arch, ...]
) -> TorchCandidate:
    """Return the official wheel that covers every target.

    It is for this torch, Python, platform and index. Raises `UnsatisfiableError` if there is no
    such wheel or the release is not known.
    """
    version = settings.torch.version
    requested_cuda = None if settings.toolkit.version == "auto" else settings.toolkit.version
    if settings.torch.index != "auto":
        cuda = (
            (requested_cuda or require_known_release(knowledge, version).pypi_cuda)
            if targets
            else None
        )
        require_supported_python(knowledge, version, host.python)
        return TorchCandidate(
            "prebuilt",
            f"from {redact_secrets(settings.torch.index)}",
            version,
            cuda,
            settings.torch.index,
        )
    platform = (host.system, host.machine, requested_cuda, host.python.version)
    try:
        wheel = select_official_wheel(knowledge, version, targets, *platform)
    except KnowledgeError as error:
        raise UnsatisfiableError(
            error.message, location="torch.version", hint=error.hint
        ) from error
    if wheel is None:
        reason = explain_missing_wheel(knowledge, version, targets, *platform)
        hint = "no release is known whose wheel would do: choose other cards in target.gpus"
        raise UnsatisfiableError(reason, location="torch", hint=hint)
    return TorchCandidate(
        "prebuilt", wheel.why, format_published_version(version), wheel.cuda, wheel.index
    )


def find_source_torch(
    settings: Settings, host: Host, knowledge: Knowledge, targets: tuple[Arch, ...], why: str
) -> TorchCandidate:
    """Return a torch to build, with the CUDA release that suits it best.

    Raises `SettingsError` and `UnsatisfiableError`.
    """
    version = settings.torch.version
    require_supported_python(knowledge, version, host.python)
    _require_source_ref(settings)
    if not targets:
        return TorchCandidate("source", why, version, None)
    if settings.toolkit.version != "auto":
        return TorchCandidate("source", why, version, settings.toolkit.version)
    release = _require_tree_release(settings, knowledge)
    capable = list_capable_toolkits(knowledge, targets)
    if not capable:
        raise UnsatisfiableError(
            f"no known CUDA toolkit makes code for {' and '.join(map(str, targets))}",
            location="target.gpus",
            hint="name another card",
        )
    published = list_published_toolkits(knowledge, release, targets, host.system)
    suitable = published or tuple(
        cuda
        for cuda in capable
        if not is_known_to_fail(knowledge, release.patch, cuda, targets, host.system)
    )
    obtainable = [
        cuda for cuda in suitable if is_toolkit_obtainable(settings, host, knowledge, cuda)
    ]
    return TorchCandidate("source", why, version, [*obtainable, *suitable, *capable][0])


def _require_source_ref(settings: Settings) -> None:
    """Raise `SettingsError` for a version without a tag, if it would be cloned.

    Source: `release_candidates` in pytorch.yaml.
    """
    source, version = settings.source, settings.torch.version
    channel = find_release_channel(version)
    if not channel or source.ref != "auto" or source.path or source.tarball:
        return
    refs = {
        "test": f"v{version.replace('rc', '-rc')}",
        "nightly": "nightly (the branch), or the commit that torch.version.git_version of that "
        "night's wheel tells",
        "nowhere": "main, or the branch or commit that is meant",
    }
    raise SettingsError(
        f"PyTorch's repository has no tag v{version}",
        location="source.ref",
        hint=f"set source.ref: {refs[channel]}",
    )


def is_partial_build(settings: Settings, strategy: Strategy) -> bool:
    """Return True for a build of one CMake target: it has no wheel to build extensions against."""
    return strategy == "source" and bool(settings.build.target)


def find_source_reason(settings: Settings) -> str:
    """Return the reason for a source build, settings that only a build uses; "" without them."""
    source, build = settings.source, settings.build
    build_only = {
        "source.path": source.path,
        "source.tarball": source.tarball,
        "source.patches": source.patches,
        "build.flags": build.flags,
        "build.target": build.target,
    }
    keys = [key for key, value in build_only.items() if value]
    return f"{' and '.join(keys)} set: no official wheel has that" if keys else ""


def require_known_release(knowledge: Knowledge, version: str) -> Release:
    """Return the facts of a release. Raises `UnsatisfiableError` for an unknown one."""
    try:
        return find_release(knowledge, version)
    except KnowledgeError as error:
        raise UnsatisfiableError(
            error.message, location="torch.version", hint=error.hint
        ) from error


def _require_tree_release(settings: Settings, knowledge: Knowledge) -> Release:
    """Return the facts of the release to build.

    A fork in source.path may number its releases differently.
    """
    try:
        return require_known_release(knowledge, settings.torch.version)
    except SettingsError as error:
        if not settings.source.path:
            raise
        hint = "set torch.version: the known release that the tree in source.path was forked from"
        raise SettingsError(error.message, location=error.location, hint=hint) from error


def require_supported_python(knowledge: Knowledge, version: str, python: Interpreter) -> None:
    """Raise `UnsatisfiableError` if the release does not support that Python."""
    try:
        release = find_release(knowledge, version)
    except KnowledgeError:
        return  # a tree newer than the facts checks the Python in its setup
    if not is_python_supported(release, python.version):
        raise UnsatisfiableError(
            f"torch {version} is for Python {' to '.join(release.python)}, "
            f"and {python.path} is {python.version}",
            location="python",
            hint="no known combination of torch, CUDA and Python fits: "
            "choose other GPUs in target.gpus",
        )
