"""List warnings before a build starts: known problems, misleading targets and unused settings."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.core.model import Host
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.knowledge.gpus import (
    find_only_machine,
    is_capability,
    resolve_gpu,
    shorten_gpu_name,
    summarize_gpus,
)
from tasks.knowledge.known_problems import find_known_bad
from tasks.knowledge.minimum_versions import find_too_old_versions
from tasks.knowledge.torch_releases import format_platform, normalize_machine
from tasks.settings.loaded_settings import DEFAULTS_PREFIX, LOCAL_PREFIX, LoadedSettings
from tasks.settings.schema import Settings
from tasks.settings.values import list_fields


def list_known_bad_warnings(knowledge: Knowledge, host: Host, choice: Resolution) -> Iterator[str]:
    """Yield a warning for each known problem of a source build.

    Known problems are known-bad combinations and versions that are too old. With every strategy,
    yield a warning for targets that exist only in other kinds of machines. Only what planning knows
    is checked: `doctor` checks compilers and glibc, and every build runs a part of it first. A
    problem that a stage fixes is not reported.
    """
    yield from _list_machine_warnings(knowledge, host, choice)
    if choice.strategy != "source":
        return
    combination = choice.build_combination(host)
    for finding in (
        *find_known_bad(knowledge, combination),
        *find_too_old_versions(knowledge, combination),
    ):
        if finding.level != "info":
            yield f"known not to work: {finding.message}. What helps: {finding.fix}"


def _list_machine_warnings(knowledge: Knowledge, host: Host, choice: Resolution) -> Iterator[str]:
    """Yield a warning for each capability that exists only in another kind of machine.

    The name of a GPU is more specific: `find_targets` raises an error for it.
    """
    for arch in choice.targets:
        machine, cards = find_only_machine(knowledge, arch)
        if machine and machine != normalize_machine(host.machine):
            gpu_names = f" ({', '.join(map(shorten_gpu_name, cards))})" if cards else ""
            yield (
                f"{arch} is in {machine} machines alone{gpu_names}, and this is "
                f"{format_platform(host.system, host.machine)}: what is built here does not "
                "run there"
            )


def list_capability_warnings(
    loaded: LoadedSettings, host: Host, knowledge: Knowledge
) -> Iterator[str]:
    """Yield a warning if the only target is a capability and no GPU is visible.

    Some guides confuse the capability of the RTX 50 series with 10.0 or 8.9. No warning for several
    targets, a matrix entry or a suffix (`9.0a`), which are chosen on purpose, nor for the
    capability of the GPU that `auto` assumes.
    """
    gpus = loaded.settings.target.gpus
    if gpus == "auto" or len(gpus) != 1 or host.gpus or "@" in loaded.profile:
        return
    arch = resolve_gpu(knowledge, gpus[0]).arch
    default_gpu = resolve_gpu(knowledge, knowledge.default_gpu)
    if arch == default_gpu.arch or arch.suffix or not is_capability(gpus[0]):
        return
    cards = summarize_gpus(knowledge, arch) or "no known GPU"
    yield (
        f'target.gpus is "{gpus[0]}", and no GPU is visible here: {arch} is {cards}; the RTX 50 '
        f"series is {default_gpu.arch}. If you mean another GPU, write its name, such as "
        f'target.gpus: ["{shorten_gpu_name(default_gpu.name)}"]'
    )


_BUILD_KEYS = (
    *("source.git", "source.ref", "source.submodules", "source.path", "source.tarball"),
    *("source.sha256", "source.patches"),
    *("build.type", "build.flags", "build.target", "build.backend", "build.blas"),
    *("wheel.local_version", "wheel.cuda"),
)
_ARCHIVE_KEYS = ("source.sha256",)
# Every profile uses these variables of build.env for its environment, and no others
_COMPILER_VARIABLES, _CACHE_PREFIXES = ("CC", "CXX"), ("CCACHE_", "SCCACHE_")
# The keys of an extension that are not used, by the kind of its source
_UNUSED_EXTENSION_KEYS = {
    "path": ("ref", "submodules", "sha256"),
    "git": ("sha256",),
    "sdist": ("ref", "submodules"),
}


def list_unused_setting_warnings(
    loaded: LoadedSettings, host: Host, choice: Resolution
) -> Iterator[str]:
    """Yield a warning for each reason, with the unused keys and their locations.

    No warning for a matrix entry: its profile has settings for the other entries, too.
    """
    if "@" in loaded.profile:
        return
    for keys, reason in _list_unused_keys(loaded.settings, host, choice):
        if unused := [f"{key} ({origin})" for key in keys if (origin := _find_origin(loaded, key))]:
            yield f"nothing reads {', '.join(unused)}: {reason}"
    yield from _list_extension_warnings(loaded)


def _list_unused_keys(
    settings: Settings, host: Host, choice: Resolution
) -> Iterator[tuple[tuple[str, ...], str]]:
    if choice.strategy == "existing":
        yield ("torch.version",), f"torch is the one that {choice.python.path} has"
    if choice.strategy != "prebuilt":
        reason = f"strategy {choice.strategy} fetches no wheel of torch"
        yield ("torch.index", "torch.sha256"), reason
    if choice.strategy == "source":
        yield from _list_unused_source_keys(settings)
    else:
        reason = f"strategy {choice.strategy} builds no torch"
        yield (*_BUILD_KEYS, *_list_unused_variables(settings)), reason
    if not choice.targets:
        yield ("target.ptx",), "a build for the CPU has no machine code for cards"
    elif choice.toolkit.home not in {toolkit.home for toolkit in host.toolkits if toolkit.asked}:
        yield ("toolkit.path",), f"the toolkit is another ({choice.toolkit.why})"
    if settings.build.distribute == "off":
        yield ("build.hosts",), "build.distribute is off"
    if not settings.publish.dest:
        yield ("publish.keep",), "publish.dest names no index"


def _list_unused_source_keys(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the unused keys of source. path precedes tarball, and tarball precedes git."""
    source = settings.source
    if source.path:
        yield ("source.ref", *_ARCHIVE_KEYS), "source.path is taken as it is"
    elif source.tarball:
        yield ("source.ref", "source.submodules"), "source.tarball is taken as it is"
    else:
        yield _ARCHIVE_KEYS, "it is the digest of source.tarball, and that is not set"


def _list_unused_variables(settings: Settings) -> Iterator[str]:
    for name in settings.build.env:
        if name.upper() not in _COMPILER_VARIABLES and not name.upper().startswith(_CACHE_PREFIXES):
            yield f"build.env.{name}"


def _list_extension_warnings(loaded: LoadedSettings) -> Iterator[str]:
    for item in loaded.settings.extensions:
        kind = next((kind for kind in _UNUSED_EXTENSION_KEYS if getattr(item, kind)), "")
        keys = [key for key in _UNUSED_EXTENSION_KEYS.get(kind, ()) if key in item.set_keys]
        if keys:
            origin = loaded.origin.get("extensions", "")
            yield f"nothing reads {', '.join(keys)} of {item.name} ({origin}): it comes by {kind}"


def _find_origin(loaded: LoadedSettings, key: str) -> str:
    """Return where a value other than the default was set for this profile, "" if it was not."""
    section, name, *_ = key.split(".")
    values = getattr(loaded.settings, section)
    if getattr(values, name) == dict(list_fields(type(values)))[name]:
        return ""
    matching_keys = (
        origin_key
        for origin_key in loaded.origin
        if origin_key == key or origin_key.startswith(f"{key}.")
    )
    origins = (loaded.origin[origin_key] for origin_key in matching_keys)
    return next(
        (origin for origin in origins if not origin.startswith((DEFAULTS_PREFIX, LOCAL_PREFIX))), ""
    )
