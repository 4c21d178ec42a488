"""The three ways to a torch: an official wheel, its own sources, or the one that is there. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.core.errors import KnowledgeError, SettingsError, redact
from tasks.core.model import Arch, Host, Interpreter, Strategy
from tasks.core.resolution import UnmetError
from tasks.knowledge import Knowledge
from tasks.knowledge.channels import channel_of, published_as
from tasks.knowledge.facts import Release
from tasks.knowledge.releases import (
    release,
    supports_python,
    wheel_for,
    why_no_wheel,
)
from tasks.knowledge.toolkits import fails_to_build, known_to_build, toolkits_for
from tasks.planning.toolkit import obtainable
from tasks.settings.schema import Settings


@dataclass(frozen=True)
class Torch:
    """A torch that could be had. `why` is the reason for the way to it; `cuda` as "13.2", None for
    the CPU; `index` the package index of a wheel, empty for the default one.
    """

    strategy: Strategy
    why: str
    version: str
    cuda: str | None
    index: str = ""


def existing(python: Interpreter) -> Torch:
    """The torch that an interpreter holds. Raises `SettingsError`."""
    if python.torch is None:
        raise SettingsError(
            f"{python.path} holds no torch",
            where="python",
            todo="name the interpreter that has it (python: /path/to/python), "
            "or choose another torch.strategy",
        )
    found = python.torch
    return Torch(
        "existing", f"asked for: torch {found.version} in {python.path}", found.version, found.cuda
    )


def prebuilt(
    settings: Settings, host: Host, knowledge: Knowledge, targets: tuple[Arch, ...]
) -> Torch:
    """The official wheel for this torch, Python, platform and index that covers every target.

    Raises `UnmetError` where there is none, and `SettingsError` for a release that is not known.
    """
    version = settings.torch.version
    wanted = None if settings.toolkit.version == "auto" else settings.toolkit.version
    if settings.torch.index != "auto":
        cuda = (wanted or known_release(knowledge, version).pypi_cuda) if targets else None
        require_python(knowledge, version, host.python)
        return Torch(
            "prebuilt", f"from {redact(settings.torch.index)}", version, cuda, settings.torch.index
        )
    platform = (host.system, host.machine, wanted, host.python.version)
    try:
        wheel = wheel_for(knowledge, version, targets, *platform)
    except KnowledgeError as error:
        raise UnmetError(error.what, where="torch.version", todo=error.todo) from error
    if wheel is None:
        why = why_no_wheel(knowledge, version, targets, *platform)
        todo = "no release is known whose wheel would do: choose other cards in target.gpus"
        raise UnmetError(why, where="torch", todo=todo)
    return Torch("prebuilt", wheel.why, published_as(version), wheel.cuda, wheel.index)


def from_source(
    settings: Settings, host: Host, knowledge: Knowledge, targets: tuple[Arch, ...], why: str
) -> Torch:
    """A torch to build, with the CUDA that suits it best. Raises `SettingsError`, `UnmetError`."""
    version = settings.torch.version
    require_python(knowledge, version, host.python)
    _require_ref(settings)
    if not targets:
        return Torch("source", why, version, None)
    if settings.toolkit.version != "auto":
        return Torch("source", why, version, settings.toolkit.version)
    found = _known_of_tree(settings, knowledge)
    able = toolkits_for(knowledge, targets)
    if not able:
        raise UnmetError(
            f"no known CUDA toolkit makes code for {' and '.join(map(str, targets))}",
            where="target.gpus",
            todo="name another card",
        )
    known = known_to_build(knowledge, found, targets, host.system)
    fine = known or tuple(
        cuda
        for cuda in able
        if not fails_to_build(knowledge, found.patch, cuda, targets, host.system)
    )
    here = [cuda for cuda in fine if obtainable(settings, host, knowledge, cuda)]
    return Torch("source", why, version, [*here, *fine, *able][0])


def _require_ref(settings: Settings) -> None:
    """`SettingsError` for a version that has no tag, where one would be cloned. Source:
    `release_candidates` in pytorch.yaml.
    """
    source, version = settings.source, settings.torch.version
    channel = channel_of(version)
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
        where="source.ref",
        todo=f"set source.ref: {refs[channel]}",
    )


def is_part(settings: Settings, strategy: Strategy) -> bool:
    """A part of the tree makes no wheel, and so nothing to build extensions against."""
    return strategy == "source" and bool(settings.build.target)


def wants_source(settings: Settings) -> str:
    """Settings that mean nothing to a prebuilt wheel are a wish for a source build."""
    source, build = settings.source, settings.build
    asked = {
        "source.path": source.path,
        "source.tarball": source.tarball,
        "source.patches": source.patches,
        "build.flags": build.flags,
        "build.target": build.target,
    }
    named = [key for key, value in asked.items() if value]
    return f"{' and '.join(named)} set: no official wheel has that" if named else ""


def known_release(knowledge: Knowledge, version: str) -> Release:
    """The facts of a release. Raises `UnmetError` where there are none."""
    try:
        return release(knowledge, version)
    except KnowledgeError as error:
        raise UnmetError(error.what, where="torch.version", todo=error.todo) from error


def _known_of_tree(settings: Settings, knowledge: Knowledge) -> Release:
    """The facts of what is built. A fork may count its releases as it likes."""
    try:
        return known_release(knowledge, settings.torch.version)
    except SettingsError as error:
        if not settings.source.path:
            raise
        todo = "set torch.version: the known release that the tree in source.path was forked from"
        raise SettingsError(error.what, where=error.where, todo=todo) from error


def require_python(knowledge: Knowledge, version: str, python: Interpreter) -> None:
    """`UnmetError` for a Python that the release is not for."""
    try:
        known = release(knowledge, version)
    except KnowledgeError:
        return  # a tree newer than our facts is for its own setup to judge
    if not supports_python(known, python.version):
        raise UnmetError(
            f"torch {version} is for Python {' to '.join(known.python)}, "
            f"and {python.path} is {python.version}",
            where="python",
            todo="no known combination of torch, CUDA and Python fits: "
            "choose other GPUs in target.gpus",
        )
