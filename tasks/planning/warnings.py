"""List the warnings before a build: known problems, doubtful targets and unused settings."""

import re
from collections.abc import Iterator

from tasks.core.model import Host
from tasks.core.project import PROJECT_LOCAL_FILE, USER_SETTINGS_NAME
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge, gpus
from tasks.knowledge.known_problems import find_known_bad
from tasks.knowledge.minimum_versions import find_too_old_versions
from tasks.knowledge.torch_releases import format_platform, normalize_machine
from tasks.settings.loaded_settings import DEFAULTS_PREFIX, LOCAL_PREFIXES, LoadedSettings
from tasks.settings.schema import Settings
from tasks.settings.values import list_fields


def list_known_bad_warnings(knowledge: Knowledge, host: Host, choice: Resolution) -> Iterator[str]:
    """Yield warnings for known problems of a source build, and for targets that need another CPU.

    Problems of compilers and glibc are left to `doit doctor`.
    """
    for arch in choice.targets:
        machine, cards = gpus.find_only_machine(knowledge, arch)
        if machine and machine != normalize_machine(host.machine):
            gpu_names = f" ({', '.join(map(gpus.shorten_gpu_name, cards))})" if cards else ""
            this = format_platform(host.system, host.machine)
            text = f"{arch} exists only in {machine} machines{gpu_names}, and this one is {this}"
            yield f"{text}: what is built here does not run on them"
    if choice.strategy != "source":
        return
    combination = choice.build_combination(host)
    problems = find_known_bad(knowledge, combination)
    for finding in (*problems, *find_too_old_versions(knowledge, combination)):
        if finding.level != "info":
            yield f"known not to work: {finding.what}. To fix it: {finding.fix}"


def list_capability_warnings(
    loaded: LoadedSettings, host: Host, knowledge: Knowledge
) -> Iterator[str]:
    """Yield a warning if target.gpus is a single number such as "8.9" and no GPU is visible.

    Some guides give a wrong number for the RTX 50 series. A matrix entry causes no warning.
    """
    names = loaded.settings.target.gpus
    if names == "auto" or len(names) != 1 or host.gpus or "@" in loaded.profile:
        return
    arch = gpus.resolve_gpu(knowledge, names[0]).arch
    default_gpu = gpus.resolve_gpu(knowledge, knowledge.default_gpu)
    if arch == default_gpu.arch or arch.suffix or not gpus.is_capability(names[0]):
        return
    cards = gpus.summarize_gpus(knowledge, arch) or "no known GPU"
    yield (
        f'target.gpus is "{names[0]}", and no GPU is visible here: {arch} is {cards}; the RTX 50 '
        f"series is {default_gpu.arch}. If you mean another GPU, write its name, such as "
        f'target.gpus: ["{gpus.shorten_gpu_name(default_gpu.name)}"]'
    )


_BUILD_KEYS = (
    *("source.git", "source.ref", "source.submodules", "source.path", "source.tarball"),
    *("source.sha256", "source.patches"),
    *("build.type", "build.flags", "build.target", "build.backend", "build.blas"),
    *("wheel.local_version", "wheel.cuda"),
)
# The only variables of build.env that a profile without a source build uses
_USED_VARIABLES = re.compile(r"(CC|CXX)\Z|S?CCACHE_", re.IGNORECASE)
# The unused keys of an extension by the kind of its source
_UNUSED_EXTENSION_KEYS = {
    "path": ("ref", "submodules", "sha256"),
    "git": ("sha256",),
    "sdist": ("ref", "submodules"),
}


def list_unused_setting_warnings(
    loaded: LoadedSettings, host: Host, choice: Resolution
) -> Iterator[str]:
    """Yield a warning for each group of unused settings, none for a matrix entry."""
    if "@" in loaded.profile:
        return
    for keys, reason in _list_unused_keys(loaded.settings, host, choice):
        if unused := [f"{key} ({origin})" for key in keys if (origin := _find_origin(loaded, key))]:
            yield f"this profile does not use {', '.join(unused)}: {reason}"
    for item in loaded.settings.extensions:
        kind = next((kind for kind in _UNUSED_EXTENSION_KEYS if getattr(item, kind)), "")
        if unused := [k for k in _UNUSED_EXTENSION_KEYS.get(kind, ()) if k in item.set_keys]:
            origin = loaded.origin.get("extensions", "")
            reason = f"{item.name} sets its source with the key {kind}"
            source = f"{item.name} ({origin})"
            yield f"this profile does not use {', '.join(unused)} of {source}: {reason}"


def _list_unused_keys(
    settings: Settings, host: Host, choice: Resolution
) -> Iterator[tuple[tuple[str, ...], str]]:
    if choice.strategy == "existing":
        yield ("torch.version",), f"it uses the torch of {choice.python.path}"
    if choice.strategy != "prebuilt":
        reason = f"strategy {choice.strategy} downloads no wheel of torch"
        yield ("torch.index", "torch.sha256"), reason
    if choice.strategy == "source":
        yield _find_unused_source_keys(settings)
    else:
        names = (name for name in settings.build.env if not _USED_VARIABLES.match(name))
        variables = [f"build.env.{name}" for name in names]
        yield (*_BUILD_KEYS, *variables), f"strategy {choice.strategy} builds no torch"
    if not choice.targets:
        yield ("target.ptx",), "a CPU build has no machine code for GPUs"
    elif choice.toolkit.home not in {toolkit.home for toolkit in host.toolkits if toolkit.asked}:
        yield ("toolkit.path",), f"another toolkit is used ({choice.toolkit.why})"
    if settings.build.distribute == "off":
        yield ("build.hosts",), "build.distribute is off"
    if not settings.publish.dest:
        yield ("publish.keep",), "publish.dest is not set"


def _find_unused_source_keys(settings: Settings) -> tuple[tuple[str, ...], str]:
    # source.path overrides tarball, and tarball overrides git
    if settings.source.path:
        return ("source.ref", "source.sha256"), "source.path is used as it is"
    if settings.source.tarball:
        return ("source.ref", "source.submodules"), "source.tarball is used as it is"
    return ("source.sha256",), "it is the digest of source.tarball, which is not set"


def _find_origin(loaded: LoadedSettings, key: str) -> str:
    """Return where the user changed this key from its default, "" if nowhere."""
    section, name, *_ = key.split(".")
    values = getattr(loaded.settings, section)
    if getattr(values, name) == dict(list_fields(type(values)))[name]:
        return ""
    origins = (o for k, o in loaded.origin.items() if f"{k}.".startswith(f"{key}."))
    preset = (DEFAULTS_PREFIX, *LOCAL_PREFIXES, f"{PROJECT_LOCAL_FILE}:")
    user_file = re.compile(rf"\b{re.escape(USER_SETTINGS_NAME)}:\d+$")
    own = (one for one in origins if not one.startswith(preset) and not user_file.search(one))
    return next(own, "")
