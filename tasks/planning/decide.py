"""From settings, host and knowledge to a `Choice`: which archs, which way to a torch, which
toolkit. Pure.

Everything that can be seen to be wrong offline is a `SettingsError` here, with the dotted key.
"""

from __future__ import annotations

from dataclasses import replace

from tasks.core.errors import SettingsError
from tasks.core.model import Host, Strategy
from tasks.core.resolution import Choice, ToolkitChoice, UnmetError
from tasks.knowledge import Knowledge
from tasks.planning.grammar import require_grammar
from tasks.planning.switches import require_cuda
from tasks.planning.targets import find_targets
from tasks.planning.toolkit import decide_toolkit, require_reach
from tasks.planning.torch import Torch, existing, from_source, is_part, prebuilt, wants_source
from tasks.settings.schema import Settings
from tasks.stages.companions import any_built

_ASKED = "asked for in torch.strategy"


def decide(settings: Settings, host: Host, knowledge: Knowledge) -> Choice:
    """The choice for this host. Raises `SettingsError`; the advice of an `UnmetError` was itself
    tried.
    """
    try:
        return attempt(settings, host, knowledge)
    except UnmetError as error:
        from tasks.planning.suggestions import advice  # noqa: PLC0415 - only where there is something to remedy

        todo = advice(settings, host, knowledge, attempt) or error.todo
        raise UnmetError(error.what, where=error.where, todo=todo) from error


def attempt(settings: Settings, host: Host, knowledge: Knowledge) -> Choice:
    """The choice, or an `UnmetError` without advice from other settings."""
    strategy = settings.torch.strategy
    if strategy != "auto":
        return by(strategy, settings, host, knowledge)
    if reason := wants_source(settings):
        return by("source", settings, host, knowledge, reason)
    targets, _ = find_targets(settings, host, knowledge)
    try:
        prebuilt(settings, host, knowledge, targets)
    except SettingsError as no_wheel:
        try:
            return by("source", settings, host, knowledge, no_wheel.what)
        except UnmetError as error:
            raise _neither(no_wheel, error) from error
    return by("prebuilt", settings, host, knowledge)


def by(
    strategy: Strategy, settings: Settings, host: Host, knowledge: Knowledge, why: str = _ASKED
) -> Choice:
    """The choice with that strategy, `why` being the reason for a build. Raises `UnmetError`, and
    `SettingsError` where no other setting helps.
    """
    targets, targets_why = find_targets(settings, host, knowledge)
    match strategy:
        case "existing":
            torch = existing(host.python)
        case "prebuilt":
            torch = prebuilt(settings, host, knowledge, targets)
        case "source":
            torch = from_source(settings, host, knowledge, targets, why)
    if targets and torch.cuda is None and torch.strategy == "existing":
        targets, targets_why = (), f"the torch in {host.python.path} was built without CUDA"
    choice = Choice(
        system=host.system,
        strategy=torch.strategy,
        strategy_why=torch.why,
        targets=targets,
        targets_why=targets_why,
        ptx=settings.target.ptx,
        torch=torch.version,
        cuda=torch.cuda if targets else None,
        toolkit=ToolkitChoice("none", why="a CPU build needs none"),
        python=host.python,
        index=torch.index,
        machine=host.machine,
    )
    require_cuda(settings.build, choice)
    choice = replace(choice, extensions=_builds_extensions(settings, choice, knowledge))
    if targets:
        choice = _with_toolkit(choice, torch, _toolkit(settings, host, knowledge, torch, choice))
    require_grammar(settings, knowledge, choice)
    return choice


def _builds_extensions(settings: Settings, choice: Choice, knowledge: Knowledge) -> bool:
    """Whether anything is compiled against torch. A companion that this torch has not is told."""
    if is_part(settings, choice.strategy):
        return False
    return any_built(settings, choice, knowledge) or bool(settings.extensions)


def _neither(no_wheel: SettingsError, no_build: UnmetError) -> SettingsError:
    """Why no wheel was taken is told with what a build lacks: the one may be easier to change."""
    if no_build.what == no_wheel.what:
        return no_build
    what = f"{no_wheel.what}; and for a build, {no_build.what}"
    return UnmetError(what, where=no_build.where, todo=no_build.todo)


def _toolkit(
    settings: Settings, host: Host, knowledge: Knowledge, torch: Torch, choice: Choice
) -> ToolkitChoice:
    """What compiles. Where nothing is compiled it is for env.sh alone, and may be missing."""
    try:
        toolkit = decide_toolkit(settings, host, knowledge, torch.cuda, choice.targets)
    except UnmetError as error:
        wished = settings.toolkit.provider != "auto"
        if torch.strategy == "source" or choice.extensions or settings.extensions or wished:
            raise
        absent = f"CUDA {torch.cuda} is not to be had here"
        why = absent if error.where == "toolkit" else error.what
        return ToolkitChoice("none", why=f"nothing is compiled, and {why}")
    if toolkit.provider != "none":
        require_reach(knowledge, toolkit.version, choice.targets)
    return toolkit


def _with_toolkit(choice: Choice, torch: Torch, toolkit: ToolkitChoice) -> Choice:
    """A torch that is built has the CUDA of its toolkit; one that is there already must have the
    same major, or its extension builder refuses (torch.utils.cpp_extension).
    """
    choice = replace(choice, toolkit=toolkit)
    if toolkit.provider == "none":
        return choice
    if torch.strategy == "source":
        return replace(choice, cuda=toolkit.version)
    if torch.cuda and torch.cuda.partition(".")[0] != toolkit.version.partition(".")[0]:
        raise UnmetError(
            f"torch {torch.version} has CUDA {torch.cuda}: CUDA {toolkit.version} cannot compile "
            "extensions for it",
            where="toolkit",
            todo=f"choose a toolkit of CUDA {torch.cuda.partition('.')[0]}, or another torch",
        )
    return choice
