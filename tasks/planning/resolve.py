"""Resolve settings, host and knowledge to a `Resolution`: targets, strategy and toolkit."""

from dataclasses import replace

from tasks.core.errors import SettingsError
from tasks.core.model import Host, Strategy
from tasks.core.resolution import Resolution, ToolkitResolution, UnsatisfiableError
from tasks.knowledge import Knowledge
from tasks.planning import torch_candidates
from tasks.planning.target_resolution import (
    find_targets,
    require_arch_support,
    require_consistent_use_cuda,
    require_toolkit_targets,
    resolve_toolkit,
)
from tasks.settings.schema import Settings
from tasks.stages.companions import needs_companion_build


def resolve_settings(settings: Settings, host: Host, knowledge: Knowledge) -> Resolution:
    """Return the resolution. An `UnsatisfiableError` has a hint with settings that work."""
    try:
        return resolve_without_suggestions(settings, host, knowledge)
    except UnsatisfiableError as error:
        from tasks.planning.suggestions import format_suggestions  # noqa: PLC0415 - rarely needed

        hint = format_suggestions(settings, host, knowledge, resolve_without_suggestions)
        error.hint = hint or error.hint
        raise


def resolve_without_suggestions(settings: Settings, host: Host, knowledge: Knowledge) -> Resolution:
    """Return the resolution. An `UnsatisfiableError` has no suggestions for other settings."""
    strategy = settings.torch.strategy
    if strategy != "auto":
        return resolve_strategy(strategy, settings, host, knowledge)
    if reason := torch_candidates.find_source_reason(settings):
        return resolve_strategy("source", settings, host, knowledge, reason)
    targets, _ = find_targets(settings, host, knowledge)
    try:
        torch_candidates.find_prebuilt_torch(settings, host, knowledge, targets)
    except SettingsError as no_wheel:
        try:
            return resolve_strategy("source", settings, host, knowledge, no_wheel.message)
        except UnsatisfiableError as error:
            if error.message == no_wheel.message:
                raise
            # Name both problems: the user may solve either
            message = f"{no_wheel.message}; for a build, {error.message}"
            raise UnsatisfiableError(message, location=error.location, hint=error.hint) from error
    return resolve_strategy("prebuilt", settings, host, knowledge)


def resolve_strategy(
    strategy: Strategy,
    settings: Settings,
    host: Host,
    knowledge: Knowledge,
    why: str = "requested in torch.strategy",
) -> Resolution:
    """Return the resolution for one strategy. `why` is the reason for a source build."""
    targets, targets_why = find_targets(settings, host, knowledge)
    match strategy:
        case "existing":
            torch = torch_candidates.find_existing_torch(host.python)
        case "prebuilt":
            torch = torch_candidates.find_prebuilt_torch(settings, host, knowledge, targets)
        case "source":
            torch = torch_candidates.find_source_torch(settings, host, knowledge, targets, why)
    if targets and torch.cuda is None and torch.strategy == "existing":
        targets, targets_why = (), f"the torch in {host.python.path} was built without CUDA"
    resolution = Resolution(
        system=host.system,
        strategy=torch.strategy,
        strategy_why=torch.why,
        targets=targets,
        targets_why=targets_why,
        ptx=settings.target.ptx,
        torch=torch.version,
        cuda=torch.cuda if targets else None,
        toolkit=ToolkitResolution("none", why="a CPU build needs none"),
        python=host.python,
        index=torch.index,
        machine=host.machine,
    )
    require_consistent_use_cuda(settings.build, resolution)
    if not torch_candidates.is_partial_build(settings, torch.strategy):
        has_companions = needs_companion_build(settings, resolution, knowledge)
        resolution = replace(resolution, extensions=has_companions or bool(settings.extensions))
    if targets:
        toolkit = _resolve_optional_toolkit(settings, host, knowledge, torch, resolution)
        is_built = torch.strategy == "source" and toolkit.provider != "none"
        cuda = toolkit.version if is_built else resolution.cuda
        resolution = replace(resolution, toolkit=toolkit, cuda=cuda)
    require_arch_support(settings, knowledge, resolution)
    return resolution


def _resolve_optional_toolkit(
    settings: Settings,
    host: Host,
    knowledge: Knowledge,
    torch: torch_candidates.TorchCandidate,
    choice: Resolution,
) -> ToolkitResolution:
    """Return the toolkit, or provider "none" if it is not available and nothing is compiled.

    Raises `UnsatisfiableError` if torch has another CUDA major: extensions would not compile.
    """
    try:
        toolkit = resolve_toolkit(settings, host, knowledge, torch.cuda, choice.targets)
    except UnsatisfiableError as error:
        is_compiled = torch.strategy == "source" or choice.extensions or settings.extensions
        if is_compiled or settings.toolkit.provider != "auto":
            raise
        unavailable = f"CUDA {torch.cuda} is not available here"
        reason = unavailable if error.location == "toolkit" else error.message
        return ToolkitResolution("none", why=f"nothing is compiled, and {reason}")
    if toolkit.provider == "none":
        return toolkit
    require_toolkit_targets(knowledge, toolkit.version, choice.targets)
    major = torch.cuda.partition(".")[0] if torch.cuda and torch.strategy != "source" else ""
    if major and major != toolkit.version.partition(".")[0]:
        raise UnsatisfiableError(
            f"torch {torch.version} has CUDA {torch.cuda}: CUDA {toolkit.version} cannot compile "
            "extensions for it",
            location="toolkit",
            hint=f"choose a toolkit of CUDA {major}, or another torch",
        )
    return toolkit
