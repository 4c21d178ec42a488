"""Find the torch for a strategy: an official wheel, a source build, or an existing torch."""

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
from tasks.planning.target_resolution import is_toolkit_obtainable
from tasks.settings.schema import Settings


@dataclass(frozen=True)
class TorchCandidate:
    """A torch that a strategy can use. `why` is the reason for it.

    `cuda` is a release such as "13.2", None for a CPU torch. `index` is "" for the default index.
    """

    strategy: Strategy
    why: str
    version: str
    cuda: str | None
    index: str = ""


def find_existing_torch(python: Interpreter) -> TorchCandidate:
    """Return the torch installed for this interpreter. Raises `SettingsError` if none exists."""
    if python.torch is None:
        raise SettingsError(
            f"{python.path} has no torch",
            location="python",
            hint="set python to the interpreter that has torch (python: /path/to/python), "
            "or choose another torch.strategy",
        )
    torch = python.torch
    why = f"torch {torch.version} in {python.path}"
    return TorchCandidate("existing", why, torch.version, torch.cuda)


def find_prebuilt_torch(
    settings: Settings, host: Host, knowledge: Knowledge, targets: tuple[Arch, ...]
) -> TorchCandidate:
    """Return the wheel in torch.index, or the official one. Raises `UnsatisfiableError` if none."""
    version, index = settings.torch.version, settings.torch.index
    requested_cuda = None if settings.toolkit.version == "auto" else settings.toolkit.version
    if index != "auto":
        cuda = requested_cuda if targets else None
        if targets and not cuda:
            cuda = require_known_release(knowledge, version).pypi_cuda
        require_supported_python(knowledge, version, host.python)
        return TorchCandidate("prebuilt", f"from {redact_secrets(index)}", version, cuda, index)
    platform = (host.system, host.machine, requested_cuda, host.python.version)
    try:
        wheel = select_official_wheel(knowledge, version, targets, *platform)
    except KnowledgeError as error:
        location = "torch.version"
        raise UnsatisfiableError(error.message, location=location, hint=error.hint) from error
    if wheel is None:
        reason = explain_missing_wheel(knowledge, version, targets, *platform)
        hint = "choose other GPUs in target.gpus: no known release has a wheel for these"
        raise UnsatisfiableError(reason, location="torch", hint=hint)
    published = format_published_version(version)
    return TorchCandidate("prebuilt", wheel.why, published, wheel.cuda, wheel.index)


def find_source_torch(
    settings: Settings, host: Host, knowledge: Knowledge, targets: tuple[Arch, ...], why: str
) -> TorchCandidate:
    """Return the torch to build, with the most suitable CUDA release. Raises `SettingsError`."""
    version = settings.torch.version
    require_supported_python(knowledge, version, host.python)
    _require_source_ref(settings)
    if not targets:
        return TorchCandidate("source", why, version, None)
    if settings.toolkit.version != "auto":
        return TorchCandidate("source", why, version, settings.toolkit.version)
    try:
        release = require_known_release(knowledge, version)
    except SettingsError as error:
        if not settings.source.path:
            raise
        # A fork of PyTorch may use other version numbers
        hint = "set torch.version to the known release that the tree in source.path was forked from"
        raise SettingsError(error.message, location=error.location, hint=hint) from error
    capable = list_capable_toolkits(knowledge, targets)
    if not capable:
        raise UnsatisfiableError(
            f"no known CUDA toolkit makes code for {' and '.join(map(str, targets))}",
            location="target.gpus",
            hint="choose another GPU",
        )
    system = host.system
    suitable = list_published_toolkits(knowledge, release, targets, system) or tuple(
        cuda
        for cuda in capable
        if not is_known_to_fail(knowledge, release.patch, cuda, targets, system)
    )
    obtainable = [one for one in suitable if is_toolkit_obtainable(settings, host, knowledge, one)]
    return TorchCandidate("source", why, version, [*obtainable, *suitable, *capable][0])


def _require_source_ref(settings: Settings) -> None:
    """Require source.ref for a version without a git tag, such as a nightly build."""
    source, version = settings.source, settings.torch.version
    channel = find_release_channel(version)
    if not channel or source.ref != "auto" or source.path or source.tarball:
        return
    refs = {
        "test": f"v{version.replace('rc', '-rc')}",
        "nightly": "nightly (the branch), or the commit in torch.version.git_version of that wheel",
        "nowhere": "main, or another branch or commit",
    }
    raise SettingsError(
        f"PyTorch's repository has no tag v{version}",
        location="source.ref",
        hint=f"set source.ref: {refs[channel]}",
    )


def is_partial_build(settings: Settings, strategy: Strategy) -> bool:
    """Return True for a build of a single CMake target, which makes no wheel."""
    return strategy == "source" and bool(settings.build.target)


def find_source_reason(settings: Settings) -> str:
    """Return a message with the set keys that require a source build, "" if none is set."""
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
    """Return the facts of a torch release. Raises `UnsatisfiableError` if it is unknown."""
    try:
        return find_release(knowledge, version)
    except KnowledgeError as error:
        location = "torch.version"
        raise UnsatisfiableError(error.message, location=location, hint=error.hint) from error


def require_supported_python(knowledge: Knowledge, version: str, python: Interpreter) -> None:
    """Raise `UnsatisfiableError` if the torch release is known not to support this Python."""
    try:
        release = find_release(knowledge, version)
    except KnowledgeError:
        return  # an unknown release: its setup.py checks the Python
    if not is_python_supported(release, python.version):
        raise UnsatisfiableError(
            f"torch {version} is for Python {' to '.join(release.python)}, "
            f"and {python.path} is {python.version}",
            location="python",
            hint="choose other GPUs in target.gpus: no known torch, CUDA and Python fit these",
        )
