"""Resolve settings, host and knowledge to a `Resolution`: targets, strategy, torch and toolkit."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from msgspec import structs

from tasks.core.errors import KnowledgeError, SettingsError, redact_secrets
from tasks.core.model import Arch, Host, Interpreter, Strategy
from tasks.core.resolution import Resolution, ToolkitResolution, UnsatisfiableError
from tasks.knowledge import Knowledge, cuda_toolkits, torch_releases
from tasks.knowledge.facts import Release
from tasks.knowledge.versions import (
    find_release_channel,
    format_published_version,
    parse_version_numbers,
)
from tasks.planning.target_resolution import (
    convert_errors,
    find_targets,
    require_arch_support,
    require_consistent_use_cuda,
    resolve_toolkit,
    select_compiled_targets,
)
from tasks.settings.schema import Settings
from tasks.stages.companions import needs_companion_build


def resolve_settings(settings: Settings, host: Host, knowledge: Knowledge) -> Resolution:
    """Return the resolution. An `UnsatisfiableError` has a hint with settings that work."""
    settings = resolve_torch_version(settings, host, knowledge)
    try:
        return resolve_without_suggestions(settings, host, knowledge)
    except UnsatisfiableError as error:
        from tasks.planning.suggestions import format_suggestions  # noqa: PLC0415 - rarely needed

        error.hint = format_suggestions(settings, host, knowledge) or error.hint
        raise


def resolve_without_suggestions(settings: Settings, host: Host, knowledge: Knowledge) -> Resolution:
    """Return the resolution. An `UnsatisfiableError` has no suggestions for other settings."""
    settings = resolve_torch_version(settings, host, knowledge)
    strategy = settings.torch.strategy
    if strategy != "auto":
        return resolve_strategy(strategy, settings, host, knowledge)
    if reason := find_source_reason(settings):
        return resolve_strategy("source", settings, host, knowledge, reason)
    _require_published_release(knowledge, settings.torch.version)
    targets, _ = find_targets(settings, host, knowledge)
    try:
        _find_prebuilt_torch(settings, host, knowledge, targets)
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
    """Return the resolution for `strategy`. `why` is recorded as the reason for a source build."""
    settings = resolve_torch_version(settings, host, knowledge)
    targets, targets_why = find_targets(settings, host, knowledge)
    compiled = select_compiled_targets(knowledge, targets)
    match strategy:
        case "existing":
            torch = _find_existing_torch(host.python)
        case "prebuilt":
            torch = _find_prebuilt_torch(settings, host, knowledge, targets)
        case "source":
            targets = compiled.archs
            cuda = _select_source_cuda(settings, host, knowledge, targets)
            torch = _TorchCandidate(why, settings.torch.version, cuda)
    targets = compiled.archs
    if targets and torch.cuda is None and strategy == "existing":
        targets, targets_why = (), f"the torch in {host.python.path} was built without CUDA"
    resolution = Resolution(
        system=host.system,
        strategy=strategy,
        strategy_why=torch.why,
        targets=targets,
        targets_why=targets_why,
        ptx=settings.target.ptx or compiled.ptx,
        torch=torch.version,
        cuda=torch.cuda if targets else None,
        toolkit=ToolkitResolution("none", why="a CPU build needs none"),
        python=host.python,
        index=torch.index,
        machine=host.machine,
    )
    require_consistent_use_cuda(settings.build, resolution)
    if not is_partial_build(settings, strategy):
        has_companions = needs_companion_build(settings, resolution, knowledge)
        resolution = replace(resolution, extensions=has_companions or bool(settings.extensions))
    if targets:
        toolkit = _resolve_optional_toolkit(settings, host, knowledge, resolution)
        is_built = strategy == "source" and toolkit.provider != "none"
        cuda = toolkit.version if is_built else resolution.cuda
        resolution = replace(resolution, toolkit=toolkit, cuda=cuda)
    require_arch_support(settings, knowledge, resolution)
    facts = (*_list_fact_origins(knowledge, resolution), *(compiled.notes if targets else ()))
    return replace(resolution, facts=facts)


def _list_fact_origins(knowledge: Knowledge, choice: Resolution) -> Iterator[str]:
    """Yield where the facts about torch and the toolkit come from, unless they are recorded."""
    read = knowledge.read
    published = {*read.versions, *read.cuda_versions}

    def find_reason(version: str) -> str:
        if read.versions and version not in published:
            return f"{read.index} does not have it"
        return read.problem or "the index was not asked"

    with suppress(KnowledgeError):
        release = torch_releases.find_release(knowledge, choice.torch)
        why = "it is a pre-release" if release.channel else find_reason(release.patch)
        yield from _label_origin(f"torch {choice.torch}", release.origin, why)
    if cuda := choice.toolkit.version:
        with suppress(KnowledgeError):
            kit = cuda_toolkits.find_toolkit(knowledge, cuda)
            yield from _label_origin(f"CUDA {cuda}", kit.origin, find_reason(cuda))


def _label_origin(subject: str, origin: str, why: str) -> Iterator[str]:
    if origin:
        yield f"{subject}: {origin}" + (f", because {why}" * origin.startswith("assumed"))


def resolve_torch_version(settings: Settings, host: Host, knowledge: Knowledge) -> Settings:
    """Return the settings with a release in torch.version in place of `auto`.

    This is the newest release with an official wheel for the targets, the platform and the Python,
    or for a source build the newest release that supports the Python. If no release fits, it is
    the newest. Releases that the package index lacks are left out if the index was asked.
    """
    if settings.torch.version != "auto":
        return settings
    versions = list_versions(settings, knowledge)
    fitting = (
        version for version in versions if can_use_version(settings, host, knowledge, version)
    )
    torch = structs.replace(settings.torch, version=next(fitting, versions[0]))
    return structs.replace(settings, torch=torch)


def can_use_version(settings: Settings, host: Host, knowledge: Knowledge, version: str) -> bool:
    """Return True if `auto` can mean this version, see `resolve_torch_version`."""
    release = torch_releases.find_release(knowledge, version)
    is_source = settings.torch.strategy == "source" or find_source_reason(settings)
    is_own_index = settings.torch.index != "auto"
    has_python = torch_releases.is_python_supported(release, host.python.version)
    if is_source or (is_own_index and not has_python):
        return has_python
    try:
        targets, _ = find_targets(settings, host, knowledge)
    except SettingsError:
        return True
    if is_own_index:
        return not _list_missing_archs(knowledge, release, targets, host)
    requested_cuda = None if settings.toolkit.version == "auto" else settings.toolkit.version
    platform = (host.system, host.machine, requested_cuda, host.python.version)
    query = (knowledge, version, targets, *platform)
    return torch_releases.select_official_wheel(*query) is not None


def list_versions(settings: Settings, knowledge: Knowledge) -> list[str]:
    """Return the torch releases that `auto` can choose from, newest first.

    These are releases whose facts were recorded or read, or with torch.index only those that were
    read there. If the package index was asked, it must have the release.
    """
    releases = knowledge.releases.values()
    recorded = {patch for release in releases for patch in (release.patch, *release.patches)}
    is_own_index = settings.torch.index != "auto" and knowledge.read_releases
    known = {*knowledge.read_releases} | (set() if is_own_index else recorded)
    oldest = parse_version_numbers(next(iter(knowledge.releases)))
    published = [one for one in knowledge.read.versions if parse_version_numbers(one) >= oldest]
    candidates = [one for one in known if not find_release_channel(one)]
    if published:
        candidates = [one for one in candidates if one in published] or published[-1:]
    return sorted(candidates or recorded, key=parse_version_numbers, reverse=True)


def _resolve_optional_toolkit(
    settings: Settings, host: Host, knowledge: Knowledge, choice: Resolution
) -> ToolkitResolution:
    """Return the toolkit, with the provider "none" if there is no toolkit and no need for one.

    Raises `UnsatisfiableError` if the CUDA major versions of torch and the toolkit differ.
    """
    cuda = choice.cuda
    try:
        toolkit = resolve_toolkit(settings, host, knowledge, cuda, choice.targets)
    except UnsatisfiableError as error:
        if choice.needs_compiler or settings.extensions or settings.toolkit.provider != "auto":
            raise
        unavailable = f"CUDA {cuda} is not available here"
        reason = unavailable if error.location == "toolkit" else error.message
        return ToolkitResolution("none", why=f"nothing is compiled, and {reason}")
    major = cuda.partition(".")[0] if cuda and choice.strategy != "source" else ""
    if major and major != toolkit.version.partition(".")[0]:
        message = f"torch {choice.torch} has CUDA {cuda}: "
        message += f"CUDA {toolkit.version} cannot compile extensions for this torch"
        hint = f"set toolkit.version to a release of CUDA {major}"
        raise UnsatisfiableError(message, location="toolkit", hint=hint)
    return toolkit


@dataclass(frozen=True)
class _TorchCandidate:
    """A torch that a strategy can use, and why it was chosen.

    `cuda` is a release such as "13.2", `None` for a CPU torch. `index` is "" for the default index.
    """

    why: str
    version: str
    cuda: str | None
    index: str = ""


def _find_existing_torch(python: Interpreter) -> _TorchCandidate:
    if torch := python.torch:
        why = f"torch {torch.version} in {python.path}"
        return _TorchCandidate(why, torch.version, torch.cuda)
    hint = "set python to the interpreter that has torch (python: /path/to/python), "
    hint += "or choose another torch.strategy"
    raise SettingsError(f"{python.path} has no torch", location="python", hint=hint)


def _find_prebuilt_torch(
    settings: Settings, host: Host, knowledge: Knowledge, targets: tuple[Arch, ...]
) -> _TorchCandidate:
    """Return the torch wheel to download. Raises `UnsatisfiableError` if no known wheel fits."""
    version, index = settings.torch.version, settings.torch.index
    requested_cuda = None if settings.toolkit.version == "auto" else settings.toolkit.version
    if index != "auto":
        cuda = requested_cuda if targets else None
        with convert_errors("torch.version", UnsatisfiableError):
            release = torch_releases.find_release(knowledge, version)
        if targets and not cuda:
            cuda = release.pypi_cuda
        _require_published_release(knowledge, version)
        _require_read_code(knowledge, release, targets, host)
        _require_supported_python(knowledge, version, host.python)
        return _TorchCandidate(f"from {redact_secrets(index)}", version, cuda, index)
    platform = (host.system, host.machine, requested_cuda, host.python.version)
    _require_published_release(knowledge, version)
    with convert_errors("torch.version", UnsatisfiableError):
        release = torch_releases.find_release(knowledge, version)
        _require_read_code(knowledge, release, () if release.has_cuda else targets, host)
        wheel = torch_releases.select_official_wheel(knowledge, version, targets, *platform)
    if wheel is None:
        reason = torch_releases.explain_missing_wheel(knowledge, version, targets, *platform)
        hint = "choose other GPUs in target.gpus: no known release has a wheel for these"
        raise UnsatisfiableError(reason, location="torch", hint=hint)
    return _TorchCandidate(wheel.why, format_published_version(version), wheel.cuda, wheel.index)


def _require_published_release(knowledge: Knowledge, version: str) -> None:
    """Raise `UnsatisfiableError` for an unknown release that the package index does not have."""
    published = knowledge.read.versions
    with convert_errors("torch.version", UnsatisfiableError):
        release = torch_releases.find_release(knowledge, version)
    is_unknown = release.origin.startswith("assumed") and not release.channel
    if is_unknown and published and version not in published:
        message = f"torch {version} is not on {knowledge.read.index}, whose newest is "
        message += published[-1]
        hint = f'set torch.version: "{published[-1]}"'
        raise UnsatisfiableError(message, location="torch.version", hint=hint)


def _require_read_code(
    knowledge: Knowledge, release: Release, targets: tuple[Arch, ...], host: Host
) -> None:
    """Raise `UnsatisfiableError` if a wheel that was read has no code for a target."""
    if missing := _list_missing_archs(knowledge, release, targets, host):
        message = f"torch {release.patch} of {knowledge.read.index} has no code for "
        message += ", ".join(map(str, missing))
        hint = "choose another torch.version, or set torch.strategy: source"
        raise UnsatisfiableError(message, location="torch", hint=hint)


def _list_missing_archs(
    knowledge: Knowledge, release: Release, targets: tuple[Arch, ...], host: Host
) -> list[Arch]:
    """Return the targets that the wheel of a release has no code for, [] if it was not read."""
    if not release.has_cuda:
        return list(targets)
    if not release.origin.startswith("read"):
        return []
    platform = (host.system, host.machine, release.pypi_cuda)
    wheels = torch_releases.list_platform_wheels(release, *platform)
    wheels = [wheel for wheel in wheels if not wheel.status.startswith("unverified")]
    uncovered = (torch_releases.list_uncovered_archs(knowledge, one, targets) for one in wheels)
    return next(uncovered, [])


def _select_source_cuda(
    settings: Settings, host: Host, knowledge: Knowledge, targets: tuple[Arch, ...]
) -> str | None:
    """Return the best CUDA release to build torch with, `None` for a CPU build.

    Raises `SettingsError` if torch cannot be built with these settings.
    """
    version = settings.torch.version
    _require_supported_python(knowledge, version, host.python)
    _require_source_ref(settings)
    if not targets or settings.toolkit.version != "auto":
        return settings.toolkit.version if targets else None
    try:
        release = torch_releases.find_release(knowledge, version)
    except KnowledgeError as error:
        location, hint = "torch.version", error.hint
        if not settings.source.path:
            raise UnsatisfiableError(error.message, location=location, hint=hint) from error
        # A fork of PyTorch may use other version numbers
        hint = "set torch.version to the known release that the tree in source.path was forked from"
        raise SettingsError(error.message, location=location, hint=hint) from error
    capable = cuda_toolkits.list_capable_toolkits(knowledge, targets)
    if not capable:
        message = f"no known CUDA toolkit makes code for {' and '.join(map(str, targets))}"
        raise UnsatisfiableError(message, location="target.gpus", hint="choose another GPU")
    system = host.system
    published = cuda_toolkits.list_published_toolkits(knowledge, release, targets, system)
    suitable = published or tuple(
        cuda
        for cuda in capable
        if not cuda_toolkits.is_known_to_fail(knowledge, release.patch, cuda, targets, system)
    )
    for cuda in suitable:
        with suppress(SettingsError):
            if resolve_toolkit(settings, host, knowledge, cuda, targets).version == cuda:
                return cuda
    return [*suitable, *capable][0]


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
    message = f"PyTorch's repository has no tag v{version}"
    raise SettingsError(message, location="source.ref", hint=f"set source.ref: {refs[channel]}")


def is_partial_build(settings: Settings, strategy: Strategy) -> bool:
    """Return True for a build of a single CMake target, which makes no wheel."""
    return strategy == "source" and bool(settings.build.target)


def find_source_reason(settings: Settings) -> str:
    """Return a message with the keys that require a source build, or "" if none of them is set."""
    source, build = settings.source, settings.build
    build_only = {
        "source.path": source.path,
        "source.tarball": source.tarball,
        "source.patches": source.patches,
        "build.flags": build.flags,
        "build.target": build.target,
    }
    keys = [key for key, value in build_only.items() if value]
    return f"no official wheel is built with {' and '.join(keys)}" if keys else ""


def _require_supported_python(knowledge: Knowledge, version: str, python: Interpreter) -> None:
    """Raise `UnsatisfiableError` if the torch release is known not to support this Python."""
    try:
        release = torch_releases.find_release(knowledge, version)
    except KnowledgeError:
        return  # an unknown release: its setup.py checks the Python
    if not torch_releases.is_python_supported(release, python.version):
        message = f"torch {version} supports Python {' to '.join(release.python)}, "
        message += f"and {python.path} is {python.version}"
        hint = "choose other GPUs in target.gpus: no known torch, CUDA and Python fit these"
        raise UnsatisfiableError(message, location="python", hint=hint)
