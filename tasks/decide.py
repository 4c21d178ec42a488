"""From settings, host and knowledge to a `Choice`: which archs, which way to a torch, which
toolkit. Pure.

Everything that can be seen to be wrong offline is a `SettingsError` here, with the dotted key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tasks.choice import Choice, ToolkitChoice
from tasks.decide_toolkit import decide_toolkit, require_reach
from tasks.errors import KnowledgeError, SettingsError, redact
from tasks.knowledge import Knowledge
from tasks.knowledge.facts import Release
from tasks.knowledge.gpus import resolve_gpu, short_name
from tasks.knowledge.releases import release, supports_python, wheel_for, why_no_wheel
from tasks.knowledge.toolkits import toolkits_for
from tasks.model import Arch, Host, Interpreter, Strategy
from tasks.settings.schema import Settings


@dataclass(frozen=True)
class _Torch:
    strategy: Strategy
    why: str
    version: str
    cuda: str | None
    index: str = ""


def decide(settings: Settings, host: Host, knowledge: Knowledge) -> Choice:
    """The choice for this host. Raises `SettingsError`."""
    targets, targets_why = _targets(settings, host, knowledge)
    torch = _torch(settings, host, knowledge, targets)
    if targets and torch.cuda is None and torch.strategy == "existing":
        targets, targets_why = (), f"the torch in {host.python.path} was built without CUDA"
    toolkit = (
        decide_toolkit(settings, host, knowledge, torch.cuda, targets)
        if targets
        else ToolkitChoice("none")
    )
    if toolkit.provider != "none":
        require_reach(knowledge, toolkit.version, targets)
        torch = _with_toolkit(torch, toolkit)
    if torch.strategy != "existing":
        _python_fits(knowledge, torch, host.python)
    return Choice(
        system=host.system,
        strategy=torch.strategy,
        strategy_why=torch.why,
        targets=targets,
        targets_why=targets_why,
        ptx=settings.target.ptx,
        torch=torch.version,
        cuda=torch.cuda if targets else None,
        toolkit=toolkit,
        python=host.python,
        index=torch.index,
    )


def _targets(settings: Settings, host: Host, knowledge: Knowledge) -> tuple[tuple[Arch, ...], str]:
    asked = settings.target.gpus
    if asked == "auto" and host.system == "macos":
        return (), "macOS has no CUDA"
    if asked == "auto" and host.gpus:
        archs = {Arch.parse(gpu.capability) for gpu in host.gpus}
        return tuple(
            sorted(archs)
        ), f"{', '.join(sorted({gpu.name for gpu in host.gpus}))} in this machine"
    if asked == "auto":
        assumed = resolve_gpu(knowledge, knowledge.default_gpu)
        return (assumed.arch,), f"no NVIDIA card seen here: {short_name(assumed.name)} assumed"
    if asked and host.system == "macos":
        raise SettingsError(
            "CUDA builds are not for macOS", where="target.gpus", todo="write gpus: []"
        )
    try:
        facts = [resolve_gpu(knowledge, name) for name in asked]
    except KnowledgeError as error:
        raise SettingsError(error.what, where="target.gpus", todo=error.todo) from error
    return tuple(sorted({fact.arch for fact in facts})), ", ".join(
        asked
    ) or "a build for the CPU was asked for"


def _torch(
    settings: Settings, host: Host, knowledge: Knowledge, targets: tuple[Arch, ...]
) -> _Torch:
    match settings.torch.strategy:
        case "existing":
            return _existing(host.python)
        case "source":
            return _from_source(settings, knowledge, targets, "asked for in torch.strategy")
        case "prebuilt":
            return _prebuilt(settings, host, knowledge, targets)
    if reason := _wants_source(settings):
        return _from_source(settings, knowledge, targets, reason)
    try:
        return _prebuilt(settings, host, knowledge, targets)
    except SettingsError as error:
        return _from_source(settings, knowledge, targets, error.what)


def _wants_source(settings: Settings) -> str:
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


def _existing(python: Interpreter) -> _Torch:
    if python.torch is None:
        raise SettingsError(
            f"{python.path} holds no torch",
            where="python",
            todo="name the interpreter that has it (python: /path/to/python), "
            "or choose another torch.strategy",
        )
    found = python.torch
    return _Torch(
        "existing", f"asked for: torch {found.version} in {python.path}", found.version, found.cuda
    )


def _prebuilt(
    settings: Settings, host: Host, knowledge: Knowledge, targets: tuple[Arch, ...]
) -> _Torch:
    version = settings.torch.version
    wanted = None if settings.toolkit.version == "auto" else settings.toolkit.version
    if settings.torch.index != "auto":
        cuda = (wanted or _known_release(knowledge, version).pypi_cuda) if targets else None
        return _Torch(
            "prebuilt", f"from {redact(settings.torch.index)}", version, cuda, settings.torch.index
        )
    try:
        wheel = wheel_for(knowledge, version, targets, host.system, host.machine, wanted)
        why = (
            ""
            if wheel
            else why_no_wheel(knowledge, version, targets, host.system, host.machine, wanted)
        )
    except KnowledgeError as error:
        raise SettingsError(error.what, where="torch.version", todo=error.todo) from error
    if wheel is None:
        raise SettingsError(
            why,
            where="torch",
            todo="choose a newer torch.version, or torch.strategy: source to build it",
        )
    return _Torch("prebuilt", wheel.why, version, wheel.cuda, wheel.index)


def _from_source(
    settings: Settings, knowledge: Knowledge, targets: tuple[Arch, ...], why: str
) -> _Torch:
    version = settings.torch.version
    if not targets:
        return _Torch("source", why, version, None)
    if settings.toolkit.version != "auto":
        return _Torch("source", why, version, settings.toolkit.version)
    known = _known_release(knowledge, version)
    able = toolkits_for(knowledge, targets)
    built = [cuda for cuda in (known.pypi_cuda, *known.cudas_built) if cuda in able]
    if not able:
        raise SettingsError(
            f"no known CUDA toolkit makes code for {' and '.join(map(str, targets))}",
            where="target.gpus",
            todo="build for them in two profiles" if len(targets) > 1 else "name another card",
        )
    return _Torch("source", why, version, built[0] if built else able[0])


def _known_release(knowledge: Knowledge, version: str) -> Release:
    try:
        return release(knowledge, version)
    except KnowledgeError as error:
        raise SettingsError(error.what, where="torch.version", todo=error.todo) from error


def _with_toolkit(torch: _Torch, toolkit: ToolkitChoice) -> _Torch:
    """A torch that is built has the CUDA of its toolkit; one that is there already must have the
    same major, or its extension builder refuses (torch.utils.cpp_extension).
    """
    if torch.strategy == "source":
        return replace(torch, cuda=toolkit.version)
    if torch.cuda and torch.cuda.partition(".")[0] != toolkit.version.partition(".")[0]:
        raise SettingsError(
            f"torch {torch.version} has CUDA {torch.cuda}: CUDA {toolkit.version} cannot compile "
            "extensions for it",
            where="toolkit",
            todo="leave toolkit.version at auto, or build torch from source with that toolkit",
        )
    return torch


def _python_fits(knowledge: Knowledge, torch: _Torch, python: Interpreter) -> None:
    try:
        known = release(knowledge, torch.version)
    except KnowledgeError:
        return  # a tree newer than our facts is for its own setup to judge
    if not supports_python(known, python.version):
        raise SettingsError(
            f"torch {torch.version} is for Python {' to '.join(known.python)}, "
            f"and {python.path} is {python.version}",
            where="python",
            todo=f'set python: "{known.python[1]}", or choose another torch.version',
        )
