"""Parse the answers of `doit init`, and format the settings file, without writing anything."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from msgspec import structs

from tasks.cli.project_scan.project_contents import ProjectContents, read_project_contents
from tasks.cli.project_scan.python_environments import shorten_home, shorten_path
from tasks.core.errors import KnowledgeError, SettingsError, TorchyardError
from tasks.core.model import Host, Strategy
from tasks.core.text_formatting import format_did_you_mean, format_rough_duration
from tasks.doctor.examine_host import list_build_places
from tasks.doctor.folder_checks import format_disk_usage
from tasks.doctor.folder_facts_io import list_disks
from tasks.doctor.host_facts import Disk, ProbeRequest
from tasks.knowledge import Knowledge
from tasks.knowledge.extension_facts import find_extension
from tasks.knowledge.gpus import resolve_gpu, shorten_gpu_name
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.planning.profile_plan import build_layout
from tasks.planning.strategy_comparison import StrategyOption, compare_strategies
from tasks.settings.layers_io import load_settings
from tasks.settings.loaded_settings import DEFAULTS_PREFIX, LOCAL_PREFIXES
from tasks.settings.schema import Settings
from tasks.stages.install.target_interpreter_io import (
    find_interpreter,
    find_python_in,
    inspect_interpreter,
    is_program_name,
)
from tasks.system.hardware import capacity, host_probe

SPLATTING_EXTENSIONS = ("diff-gaussian-rasterization", "simple-knn")
STRATEGIES = ("auto", *get_args(Strategy))
_FILE_HEADER = """\
# yaml-language-server: $schema=schema.json
# Your own settings, written by doit init. git ignores this file. Its values override every profile.
# config/default.yaml lists all keys; doit settings shows the resulting values."""
_PROJECT_HEADER = """\
# What torchyard builds for this project. To see all keys and their values: torchyard settings"""
_GPU_COMMENT = "   # or auto: the GPUs of the machine that builds"
_VARIANT_COMMENT = """\
# Variants override these settings. To build one: torchyard build --profile ampere
# profiles:
#   ampere:
#     target:
#       gpus: ["RTX 3090"]"""
_EXCLUSIVE_ANSWERS = {
    "cpu": "a build for GPUs runs on the CPU, too; only cpu means a build without CUDA",
    "auto": "only auto means the GPUs of this machine",
}
_NONE_WORDS = {"none", "no", "-"}
_URL_PATTERN = re.compile(r"[a-z+]+://|[\w.-]+@[\w.-]+:")
_PLAIN_SCALAR = re.compile(r"\.?[A-Za-z][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_YAML_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n"}
_YAML_WORDS |= {".inf", ".nan"}

# A known name, or a name with its path or git URL, and its imports
ExtensionEntry = str | Mapping[str, str | tuple[str, ...]]
OWN_ENVIRONMENT, FOUND_EXTENSIONS = "own", "found"


@dataclass(frozen=True)
class Answers:
    """The settings that `doit init` writes. A setting that is `None` or "" is not written.

    `python` is the interpreter to build for. `into` is the install target. `companions` are from
    the old settings file, the install target or the project's requirements. `profile` is the
    default profile of the project, `torch_version` a release that the project requires.
    """

    gpus: tuple[str, ...] | str | None = None
    strategy: str | None = None
    extensions: tuple[ExtensionEntry, ...] | None = None
    python: str = ""
    into: str = ""
    companions: tuple[str, ...] | None = None
    profile: str = ""
    torch_version: str = ""


def parse_gpus(text: str, knowledge: Knowledge) -> tuple[str, ...] | str:
    """Return the GPUs in a text such as `RTX 5090, 8.9`; () for `cpu`, and "auto" for `auto`."""
    if text.strip().lower() in {"cpu", *_NONE_WORDS}:
        return ()
    if text.strip().lower() == "auto":
        return "auto"
    names = _split_names(text)
    if not names:
        raise SettingsError(
            "no GPU is named", hint='write a GPU such as "RTX 5090", or cpu for a CPU build'
        )
    for name in names:
        word = "cpu" if name.lower() in _NONE_WORDS else name.lower()
        if reason := _EXCLUSIVE_ANSWERS.get(word):
            message = f'"{name}" cannot be combined with GPUs'
            raise SettingsError(message, hint=f'remove "{name}": {reason}')
        resolve_gpu(knowledge, name)
    return names


def parse_strategy(text: str) -> str:
    """Return the strategy that the text names. Raises `SettingsError` if the name is unknown."""
    word = text.strip().lower()
    if word not in STRATEGIES:
        message = f'"{text}" is not a strategy{format_did_you_mean(word, STRATEGIES)}'
        raise SettingsError(message, hint=f"choose one of: {', '.join(STRATEGIES)}")
    return word


def parse_extensions(
    text: str, knowledge: Knowledge, root: Path, found: tuple[ExtensionEntry, ...] = ()
) -> tuple[ExtensionEntry, ...]:
    """Return the extensions in a comma-separated list; `none` means an empty list.

    An item is a known name, a folder, a git URL, `3dgs` for the two extensions of Gaussian
    Splatting, or `found` for those in `found`. Raises a `SettingsError` with a hint for any other
    item.
    """
    if text.strip().lower() in _NONE_WORDS:
        return ()
    groups = {"3dgs": SPLATTING_EXTENSIONS, **({FOUND_EXTENSIONS: found} if found else {})}
    entries: dict[str, ExtensionEntry] = {}
    for word in _split_names(text):
        for one in groups.get(word.lower(), (word,)):
            entry = _parse_extension(one, knowledge, root) if isinstance(one, str) else one
            entries[entry if isinstance(entry, str) else str(entry["name"])] = entry
    return tuple(entries.values())


def _parse_extension(word: str, knowledge: Knowledge, root: Path) -> ExtensionEntry:
    if extension := find_extension(knowledge, word):
        return extension.name
    folder = root / Path(word).expanduser()
    is_url = _URL_PATTERN.match(word)
    if is_url or folder.is_dir():
        place = word.removesuffix(".git") if is_url else str(folder.resolve())
        last = re.split(r"[/\\:]", place.rstrip("/\\"))[-1]
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._") or "mine"
        return {"name": name, "git" if is_url else "path": word}
    if "/" in word or "\\" in word or word.startswith("~"):
        raise SettingsError(f"there is no folder {folder}", hint="correct the path")
    suggestion = format_did_you_mean(word, (*knowledge.extensions, "3dgs"))
    hint = "enter a name from docs/knowledge.md, a folder, or the URL of a git repository"
    raise SettingsError(f'"{word}" is not a known extension{suggestion}', hint=hint)


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


def format_local_yaml(answers: Answers) -> str:
    """Return the text of a config/local.yaml that sets only what was answered."""
    return "\n\n".join([_FILE_HEADER, *_format_blocks(answers)]) + "\n"


def format_project_yaml(answers: Answers) -> str:
    """Return the text of a torchyard.yaml that sets only what was answered."""
    profile = [f"profile: {_quote_yaml_scalar(answers.profile)}"] if answers.profile else []
    settings = _format_blocks(answers, gpu_comment=_GPU_COMMENT)
    blocks = [_PROJECT_HEADER, *profile, *settings, _VARIANT_COMMENT]
    return "\n\n".join(blocks) + "\n"


def _format_blocks(answers: Answers, gpu_comment: str = "") -> Iterator[str]:
    if answers.python:
        yield f"python: {_quote_yaml_scalar(answers.python)}"
    if answers.gpus is not None:
        gpus = "auto" if answers.gpus == "auto" else json.dumps(answers.gpus, ensure_ascii=False)
        yield f"target:\n  gpus: {gpus}{gpu_comment if answers.gpus else ''}"
    torch = {"strategy": answers.strategy, "version": answers.torch_version}
    if lines := [f"  {key}: {_quote_yaml_scalar(text)}" for key, text in torch.items() if text]:
        yield "\n".join(["torch:", *lines])
    if answers.into:
        yield f"install:\n  into: {_quote_yaml_scalar(answers.into)}"
    if answers.companions is not None:
        yield f"companions: [{', '.join(answers.companions)}]"
    if answers.extensions is not None:
        items = "".join(f"\n  - {_format_yaml_item(one)}" for one in answers.extensions)
        yield f"extensions:{items or ' []'}"


def _format_yaml_item(one: ExtensionEntry) -> str:
    if isinstance(one, str):
        return _quote_yaml_scalar(one)
    return "{" + ", ".join(f"{key}: {_format_yaml_value(one[key])}" for key in one) + "}"


def _format_yaml_value(value: str | tuple[str, ...]) -> str:
    if isinstance(value, str):
        return _quote_yaml_scalar(value)
    return f"[{', '.join(map(_quote_yaml_scalar, value))}]"


def _quote_yaml_scalar(text: str) -> str:
    """Return the text as a YAML string, quoted if YAML could read it as another type."""
    if _PLAIN_SCALAR.fullmatch(text) and text.lower() not in _YAML_WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)


_NEW_GPUS = ("RTX 5090", "RTX 5080", "RTX 5070 Ti", "RTX 5060 Ti", "RTX PRO 6000", "B200", "H200")


@dataclass(frozen=True)
class InitFacts:
    """The facts for the questions and the default answers of `doit init`.

    `build` is the build folder. `settings` are the defaults if the profile is broken.
    `has_companion_settings` is True if companion packages are set outside config/default.yaml.
    `local_companions` is the setting in the settings file, or `None`. `contents` is what the
    project contains; it is empty for a checkout.
    """

    root: Path
    build: str
    settings: Settings
    host: Host
    knowledge: Knowledge
    disks: tuple[Disk, ...]
    has_companion_settings: bool
    local_companions: tuple[str, ...] | None
    contents: ProjectContents
    is_checkout: bool

    @property
    def extensions(self) -> tuple[ExtensionEntry, ...]:
        """Return the settings of the extensions in the project."""
        return tuple(one.settings for one in self.contents.extensions)

    @property
    def proposed_python(self) -> str:
        """Return the Python of the environment that is proposed, "" if there is none."""
        proposed = (one for one in self.contents.environments if one.is_proposed)
        return next((one.python for one in proposed), "")

    @property
    def visible_gpus(self) -> tuple[str, ...]:
        """Return the GPUs of this machine: known GPUs by name, others by compute capability."""
        names = {}
        for gpu in self.host.gpus:
            with suppress(KnowledgeError):
                if str(resolve_gpu(self.knowledge, gpu.name).arch) == gpu.capability:
                    names[gpu] = shorten_gpu_name(gpu.name)
        return tuple(dict.fromkeys(names.get(gpu, gpu.capability) for gpu in self.host.gpus))

    @property
    def default_gpus(self) -> tuple[str, ...]:
        """Return the profile's GPUs. For `auto`, return the GPUs of this machine or a default."""
        if self.settings.target.gpus != "auto":
            return self.settings.target.gpus
        return self.visible_gpus or (shorten_gpu_name(self.knowledge.default_gpu),)

    def list_recent_gpus(self) -> list[str]:
        """Return some recent GPUs, each with its compute capability."""
        return [f"{name} ({resolve_gpu(self.knowledge, name).arch})" for name in _NEW_GPUS]

    def list_strategies(self, gpus: tuple[str, ...] | str) -> tuple[StrategyOption, ...]:
        """Return the three strategies for `gpus`, with all other settings from the profile."""
        target = structs.replace(self.settings.target, gpus=gpus)
        torch = structs.replace(self.settings.torch, strategy="auto")
        settings = structs.replace(self.settings, target=target, torch=torch)
        return compare_strategies(settings, self.host, self.knowledge)


def gather_init_facts(subject: SelectedProfile) -> InitFacts:
    """Return the facts for `doit init`. GPUs are always detected again."""
    project, settings = subject.project, Settings()
    with suppress(TorchyardError):  # the error is reported when the answers are planned
        settings = load_settings(project, subject.name, os.environ, "").settings
    # if the settings cannot be read, no companion packages are guessed
    has_companions, local_companions = True, None
    with suppress(TorchyardError):
        local = None if Path(project.settings_file).is_file() else ""
        loaded = load_settings(project, subject.name, os.environ, local)
        origin = loaded.origin.get("companions", DEFAULTS_PREFIX)
        has_companions = not origin.startswith(DEFAULTS_PREFIX)
        if origin.startswith(LOCAL_PREFIXES):
            local_companions = loaded.settings.companions
    layout = build_layout(project, subject.name, settings)
    query = host_probe.HostQuery(settings.python, settings.toolkit.path)
    host = host_probe.read_host(query, layout.build / "host.json")
    host = replace(host, gpus=host_probe.list_gpus())
    places, into = tuple(list_build_places(layout, layout.build)), settings.install.into or ""
    knowledge = load_knowledge(Path(project.knowledge))
    is_checkout = project.is_checkout
    contents = ProjectContents() if is_checkout else read_project_contents(subject.root, knowledge)
    return InitFacts(
        subject.root,
        subject.build.relative_to(subject.root).as_posix(),
        settings,
        host,
        knowledge,
        tuple(list_disks(ProbeRequest(project, host, places, into=into))),
        has_companions,
        local_companions,
        contents,
        is_checkout,
    )


def build_default_answers(known: InitFacts) -> Answers:
    """Return the default answers: the project's extensions, and the companions already set."""
    is_explicit = known.settings.target.gpus != "auto"
    gpus = None if is_explicit else known.default_gpus
    return Answers(gpus, extensions=known.extensions or None, companions=known.local_companions)


def apply_install_target(answers: Answers, text: str, known: InitFacts) -> Answers:
    """Return `answers` with the interpreter or environment at the path `text`.

    It already has torch with the strategy `existing`; otherwise it is the install target. `own`
    means a new environment. Raises `TorchyardError` if the interpreter cannot be inspected.
    """
    if text == OWN_ENVIRONMENT:
        return replace(answers, into="", python="")
    target = str(Path(text).expanduser())
    if (folder := known.root / target).is_dir():
        target = str(find_python_in(folder) or folder)
    path = find_interpreter(target, known.root)
    interpreter = inspect_interpreter(path, "install.into")
    python = target
    if not known.is_checkout and not is_program_name(target):
        # unlike install.into, python is not relative to the project
        target, python = shorten_path(path, known.root), shorten_home(path)
    if answers.strategy == "existing":
        return replace(answers, python=python)
    release = known.host.python.minor
    answers = replace(answers, into=target, python=python if interpreter.minor != release else "")
    if known.has_companion_settings:
        return answers
    modules = {name: Path(name, "__init__.py") for name in known.knowledge.companions}
    sites = list(map(Path, interpreter.sites))
    found = [name for name, it in modules.items() if any((site / it).is_file() for site in sites)]
    return replace(answers, companions=tuple(found)) if found else answers


def format_strategy_cost(option: StrategyOption, disks: tuple[Disk, ...]) -> str:
    """Return the known cost on this machine as in `about 3 h, 6.2 GiB of disk`, "" if unknown."""
    cost = option.cost.scale_to_cores(capacity.count_usable_cores())
    time = f"about {format_rough_duration(sum(cost.seconds) / 2)}" if cost.seconds else ""
    return ", ".join(filter(None, (time, format_disk_usage(disks, cost.disk_usage))))
