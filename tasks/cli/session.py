"""Open a profile, without writing or using the network, and define all doit tasks."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Literal

from msgspec import structs

from tasks.cli.help_pages import (
    COMMAND_PAGES,
    DEVELOPMENT,
    DOIT_COMMANDS,
    CommandPage,
    Option,
)
from tasks.cli.running.doit_adapter import build_reporter_class
from tasks.cli.running.doit_tasks import DoitTask, generate_stage_tasks, resolve_user_path
from tasks.cli.running.execute import Session, StageAction, run_command_action
from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.model import STAGE_VERBS, Host, Json, Stage
from tasks.core.project import LOCK_NAME, Project
from tasks.knowledge import Knowledge
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.lock.opened_profile_io import (
    Profile,
    SelectedProfile,
    activate_sources,
    find_locked_release,
    load_pinned_plan,
)
from tasks.planning.profile_plan import add_mirrors, build_layout, make_plan
from tasks.planning.resolve import resolve_torch_version
from tasks.planning.warnings import list_unused_setting_warnings
from tasks.settings.layers_io import load_settings
from tasks.settings.loaded_settings import LoadedSettings, add_setting_location
from tasks.settings.matrix_entries import expand_matrix, split_profile_name
from tasks.settings.schema import Settings
from tasks.settings.setting_errors import describe_unused_variables
from tasks.stages.extensions.extension_checks_io import check_extensions
from tasks.stages.source.source_checks_io import (
    apply_tree_version,
    check_source_settings,
    list_release_warnings,
)
from tasks.system import fact_store
from tasks.system.console import Console
from tasks.system.hardware import host_probe
from tasks.system.invocation import add_profile_to_errors
from tasks.system.screen import configure_stream


def generate_command_tasks(subject: SelectedProfile) -> Iterator[DoitTask]:
    """Yield a doit task for each command of `tasks.cli.help_pages`."""
    for command in COMMAND_PAGES:
        if command.group == DEVELOPMENT and not subject.project.is_checkout:
            continue
        run_command = partial(_run_command, command, subject)
        yield {
            "basename": command.name,
            "doc": command.doc,
            "actions": [(run_command_action, [run_command])],
            "params": [_build_parameter(option) for option in command.options],
            "pos_arg": _name_arguments(command),
            "io": {"capture": command.name != "init"},  # init is interactive
        }


def _build_parameter(option: Option) -> DoitTask:
    """Return the doit parameter for an option. Paths are relative to where doit was started."""
    name = option.name.replace("-", "_")
    names = {"name": name, "long": option.name, "help": option.meaning}
    kind = _OPTION_TYPES.get(option.value, str) if option.value else bool
    return {**names, "type": kind, "default": "" if option.value else False}


def _resolve_destination(argument: str) -> str:
    from tasks.wheels.package_index_io import is_local_index  # noqa: PLC0415 - only for publish

    return resolve_user_path(argument) if is_local_index(argument) else argument


_OPTION_TYPES: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("FILE", "FOLDER", "PATH"), resolve_user_path),
    "PLACE": _resolve_destination,
    # a bare name is looked up on PATH
    "PYTHON": lambda argument: (
        argument if PurePath(argument).name == argument else resolve_user_path(argument)
    ),
}


def _name_arguments(command: CommandPage) -> str | None:
    """Return the parameter for the positional arguments, or None if the command has none."""
    return f"{command.takes.lower()}s" if command.takes else None


def _run_command(command: CommandPage, subject: SelectedProfile, **params: Any) -> None:
    import importlib  # noqa: PLC0415 - a command is loaded when it runs

    with add_profile_to_errors(subject.name):
        if arguments := _name_arguments(command):
            params |= _parse_arguments(command, arguments, params.get(arguments) or ())
        if params.get("wheels"):
            params["wheels"] = [resolve_user_path(one) for one in params["wheels"]]
        importlib.import_module(f"tasks.cli.commands.{command.name}").run(subject, **params)


def _parse_arguments(command: CommandPage, name: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the positional arguments as `name`, and the options after them.

    doit takes all words after the first positional argument as positional ones.
    """
    import getopt  # noqa: PLC0415 - only for a command with arguments

    kinds = {option.name: option.value for option in command.options}
    try:
        names = [f"{option}=" if value else option for option, value in kinds.items()]
        found, arguments = getopt.gnu_getopt(list(words), "", names)
    except getopt.GetoptError as error:
        hint = f"run: doit help {command.name}"
        raise TorchyardError(str(error), location="the command line", hint=hint) from error
    options = {option.removeprefix("--"): value for option, value in found}
    return {name: arguments} | {
        option: _OPTION_TYPES.get(kinds[option], str)(value) if kinds[option] else True
        for option, value in options.items()
    }


AskMode = Literal["never", "missing", "daily"]
HostReader = Callable[[host_probe.HostQuery, PurePath], Host]


def open_profile(  # noqa: PLR0913, PLR0917 - two parameters for a matrix, one for init
    project: Project,
    profile: str,
    environ: Mapping[str, str],
    knowledge: Knowledge | None = None,
    host_of: HostReader = host_probe.read_host,
    local: str | None = None,
    ask: AskMode = "never",
) -> Profile:
    """Load the settings of a profile and make its plan. Raises `TorchyardError` if this fails.

    `host_of` returns the facts of this machine. If `local` is not None, it is used in place of the
    content of the project's settings file. `ask` says when the package index may be asked for facts
    that are not recorded: `missing` if a fact is missing, `daily` also if the stored answer is old.
    """
    loaded = load_settings(project, profile, environ, local)
    root = Path(project.root)
    with add_setting_location(loaded):
        check_source_settings(loaded.settings, root)
        loaded = apply_tree_version(loaded, root)
        settings = loaded.settings
        layout = build_layout(project, loaded.profile, settings)
        check_extensions(settings, project)
        query = host_probe.HostQuery(settings.python, settings.toolkit.path)
        host = host_of(query, layout.build / "host.json")
        facts = knowledge or load_knowledge(Path(project.knowledge))
        loaded, facts, source = _complete_facts(loaded, project, host, facts, ask)
        settings = loaded.settings
        resolution, plan = make_plan(settings, host, facts, layout)
        unused = list_unused_setting_warnings(loaded, host, resolution)
        warnings = (*list_release_warnings(loaded, root), *plan.warnings, *unused)
        plan = replace(plan, warnings=warnings)
        mirrors = add_mirrors(settings, facts).source.mirrors
        pinned = load_pinned_plan(settings, layout, resolution, plan, mirrors)
        return Profile(loaded, layout, host, facts, resolution, pinned.plan, pinned, source)


def _complete_facts(
    loaded: LoadedSettings, project: Project, host: Host, knowledge: Knowledge, ask: AskMode
) -> tuple[LoadedSettings, Knowledge, str]:
    """Return the settings with a torch release, and the knowledge with the facts that were read.

    The text says who chose the release, "" if torch.version is not `auto` or not used.
    """
    outputs = Path(project.outputs)
    settings, store, source = loaded.settings, fact_store.read_store(outputs), ""
    if settings.torch.version == "auto":
        release, source = _find_chosen_release(loaded, project, store, ask)
        settings = _set_version(settings, release) if release else settings
    if ask != "never":
        from tasks.planning.read_facts_io import FactReader  # noqa: PLC0415 - not needed to list tasks

        reader = FactReader(outputs, settings, host, knowledge)
        read = reader.update(daily=ask == "daily")
    else:
        read = fact_store.select_facts(store, settings, host, knowledge)
    knowledge = knowledge.add_read_facts(read)
    if settings.torch.version == "auto":
        settings = resolve_torch_version(settings, host, knowledge)
        source = knowledge.read.index if knowledge.read.versions else "the recorded facts"
    source = "" if settings.torch.strategy == "existing" else source
    origin = loaded.origin.get(_VERSION_KEY, "") + (f", auto: {source}" if source else "")
    origins = {**loaded.origin, _VERSION_KEY: origin}
    return replace(loaded, settings=settings, origin=origins), knowledge, source


def _find_chosen_release(
    loaded: LoadedSettings, project: Project, store: fact_store.FactStore, ask: AskMode
) -> tuple[str, str]:
    """Return the release that `auto` has meant, and who chose it; ("", "") if nobody did.

    Only a build may choose another release than the last build.
    """
    settings, profile = loaded.settings, loaded.profile
    if locked := find_locked_release(settings, project, profile):
        return locked, LOCK_NAME
    if settings.offline:
        from tasks.lock import bundle_archive_io  # noqa: PLC0415 - most have no bundle

        return bundle_archive_io.read_bundle(
            Path(project.root, settings.offline)
        ).release, "the bundle"
    built = store.built.get(profile, "") if ask != "daily" else ""
    return (built, "the last build") if built else ("", "")


def _set_version(settings: Settings, version: str) -> Settings:
    return structs.replace(settings, torch=structs.replace(settings.torch, version=version))


_COMMANDS_FOR_BROKEN_PROFILE = frozenset(
    {
        *("cache", "settings", "doctor", "diagnose", "history", "init", "matrix", "report"),
        *("restore", "verify"),
    }
)
_VERSION_KEY = "torch.version"
_INSTALLING_TASKS = frozenset({"build", "install", "explain", "doctor"})
_STAGE_TASKS = frozenset({"build", *STAGE_VERBS})
_PLANNING_TASKS = _INSTALLING_TASKS | _STAGE_TASKS | {"matrix"}
_TASKS_AFTER_BUILD = frozenset({"lock", "bundle", "validate", "publish"})
_ALWAYS_OPTIONS = frozenset({"-a", "--always-execute"})
_HELP_OPTIONS = frozenset({"--help", "-h"})
_STATUS_OPTION = re.compile(r"--st|-\w*s")  # doit list --status; doit accepts abbreviations
_NON_BUILDING_COMMANDS = frozenset({*DOIT_COMMANDS, "ignore"})


def build_database_name(profile: str) -> str:
    """Return the file name of doit's database for a profile."""
    return f".doit.db.{re.sub(r'[^A-Za-z0-9._-]', '_', profile)}"


@dataclass(frozen=True)
class DoitSetup:
    """The configuration and the tasks that dodo.py passes to doit."""

    doit_config: Mapping[str, Any]
    tasks: Callable[[], Iterator[DoitTask]]


def open_session(
    project: Project, profile: str, environ: Mapping[str, str], argv: Sequence[str]
) -> DoitSetup:
    """Open a profile for doit. Raises `TorchyardError` if a requested task cannot run with it."""
    configure_stream(sys.stderr)  # doit writes load errors to stderr
    _reject_unknown_assignments(argv)
    try:
        with add_profile_to_errors(profile):
            session, subject = _create_session(project, profile, environ, argv)
    except TorchyardError as error:
        session, subject = None, SelectedProfile(project, profile, None, error)
        can_run = argv[:1] == ["help"] or not _COMMANDS_FOR_BROKEN_PROFILE.isdisjoint(argv)
        if not can_run and not _is_matrix_lock(argv, subject):
            raise

    def close_run(code: int) -> None:
        from tasks.cli.running.run_boundaries import finalize_run  # noqa: PLC0415 - only for a build

        if session:
            finalize_run(session, code)

    console, selected = (session.console, session.selected) if session else (Console(None), set())
    config = {
        "default_tasks": ["build"],
        "backend": "sqlite3",
        "dep_file": str(project.outputs / build_database_name(profile)),
        "reporter": build_reporter_class(console, selected, close_run),
        "verbosity": 2,
        "continue": True,  # build the remaining extensions after one fails
        "torchyard_session": session,  # for torchyard.doit_commands; doit ignores it
    }

    def generate_tasks() -> Iterator[DoitTask]:
        if session:
            yield from generate_stage_tasks(session)
        yield from generate_command_tasks(subject)

    return DoitSetup(config, generate_tasks)


def _is_matrix_lock(argv: Sequence[str], subject: SelectedProfile) -> bool:
    """Return True if the command is `doit lock` and the profile has a matrix."""
    if _list_positional_words(argv)[:1] != ["lock"] or split_profile_name(subject.name)[1]:
        return False
    with suppress(TorchyardError):
        return bool(expand_matrix(subject.read_settings().settings.matrix))
    return False


def _reject_unknown_assignments(argv: Sequence[str]) -> None:
    """Raise `SettingsError` for a NAME=VALUE with an unknown name, which doit would ignore."""
    for word in argv:
        name, equals, value = word.partition("=")
        if equals and name.isidentifier() and name != "profile":
            message = f'"{word}" is not an argument of doit'
            hint = f"to choose a profile: profile={value}; to set a key, edit the profile or "
            hint += "config/local.yaml, or set TORCHYARD__SECTION__KEY in the environment"
            raise SettingsError(message, location="the command line", hint=hint)


def _create_session(
    project: Project, profile: str, environ: Mapping[str, str], argv: Sequence[str]
) -> tuple[Session, SelectedProfile]:
    runs = not _is_read_only_command(argv)
    host_of = partial(host_probe.read_host, run=runs)
    opened = open_profile(project, profile, environ, host_of=host_of, ask=_find_ask_mode(argv))
    layout, settings = opened.layout, opened.loaded.settings
    if _needs_install_check(argv):
        from tasks.stages.install.target_interpreter_io import check_install_target  # noqa: PLC0415 - only for an installation

        with add_setting_location(opened.loaded):
            own_prefixes = {sys.prefix, sys.base_prefix}
            check_install_target(settings, layout, opened.choice, own_prefixes)
    console = Console(opened.plan, notices=lambda: _list_notices(opened, environ))
    console.profile = profile
    subject = SelectedProfile(project, profile, opened)
    selected: set[str] = set()

    def run_gate() -> None:
        from tasks.cli.commands.doctor import check_before_build  # noqa: PLC0415 - only for a build

        check_before_build(subject)

    def run_attempt(stage: Stage, run: StageAction) -> tuple[tuple[Any, ...], str]:
        from tasks.doctor.auto_fix_io import run_with_auto_fix  # noqa: PLC0415 - only for a build

        return run_with_auto_fix(stage, run, opened)

    def read_run_header() -> Mapping[str, Json]:
        from tasks.cli.running.run_boundaries import build_run_header  # noqa: PLC0415 - only for a build

        return build_run_header(profile, opened, selected)

    session = Session(
        opened.plan,
        layout,
        console,
        partial(_pin_host_and_sources, opened, runs=runs),
        run_gate,
        run_attempt,
        rebuild_all=not _ALWAYS_OPTIONS.isdisjoint(argv),
        selected=selected,
        records=layout.build / "records" / "runs",
        read_run_header=read_run_header,
        notify=settings.notify,
    )
    return session, subject


def _pin_host_and_sources(opened: Profile, *, runs: bool) -> None:
    if not runs:  # as in `doit -o --help build`
        message = "nothing is built because the command line has --help"
        raise TorchyardError(message, hint="run the command without --help")
    settings, layout = opened.loaded.settings, opened.layout
    if not opened.host.pinned:
        query = host_probe.HostQuery(settings.python, settings.toolkit.path)
        host_probe.write_host_pin(layout.build / "host.json", query, opened.host)
    if opened.release_source:
        outputs = Path(layout.project.outputs)
        fact_store.record_release(outputs, layout.profile, opened.choice.torch)
    if opened.pinned_plan:
        activate_sources(settings, layout, opened.pinned_plan)


def _is_read_only_command(argv: Sequence[str]) -> bool:
    """Return True for `help`, `--help`, `settings`, and `list` without --status.

    These commands must not start a program that the settings name.
    """
    if not _HELP_OPTIONS.isdisjoint(argv):
        return True
    words = _list_positional_words(argv)
    if words[:1] == ["list"]:
        return not any(map(_STATUS_OPTION.match, argv))
    if words[:1] == ["settings"]:
        return not words[1:] or (len(words) == 2 and argv[argv.index(words[1]) - 1] == "--json")
    return words[:1] == ["help"]


def _needs_install_check(argv: Sequence[str]) -> bool:
    """Return True if a requested task needs the environment that install.into names."""
    words = _list_positional_words(argv)
    if _is_read_only_command(argv) or (words and words[0] in _NON_BUILDING_COMMANDS):
        return False
    tasks = {word for word in words if word != "run" and not word.isdigit()}  # not the 4 of `-n 4`
    return not tasks or not tasks.isdisjoint(_INSTALLING_TASKS)


def _find_ask_mode(argv: Sequence[str]) -> AskMode:
    """Return when the requested tasks may ask the package index.

    Tasks that use a finished build must not get a newer release than the build has. An argument
    of a stage that is no task is a mistake, which doit reports.
    """
    words = _list_positional_words(argv)
    if _is_read_only_command(argv) or (words and words[0] in _NON_BUILDING_COMMANDS):
        return "never"
    tasks = {word.partition(":")[0] for word in words if word != "run" and not word.isdigit()}
    known = _STAGE_TASKS.union(page.name for page in COMMAND_PAGES)
    if not tasks.isdisjoint(_STAGE_TASKS) and not tasks <= known:
        return "never"
    if not tasks.isdisjoint(_TASKS_AFTER_BUILD):
        return "missing"
    return "daily" if not tasks or not tasks.isdisjoint(_PLANNING_TASKS) else "never"


def _list_positional_words(argv: Sequence[str]) -> list[str]:
    return [one for one in argv if not one.startswith("-") and "=" not in one]


def _list_notices(opened: Profile, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the notices that are printed below the header of a run that builds."""
    from tasks.planning.warnings import list_capability_warnings, list_known_bad_warnings  # noqa: PLC0415 - only for a build

    yield from opened.loaded.warnings
    yield from describe_unused_variables(environ)
    if opened.host.pinned and opened.loaded.settings.target.gpus == "auto":
        current, pinned = (
            ", ".join(sorted({gpu.capability for gpu in gpus})) or "none"
            for gpus in (host_probe.list_gpus(), opened.host.gpus)
        )
        if current != pinned:
            yield (
                f"the GPUs of this machine are now {current}, but this profile was planned for "
                f"{pinned}; builds keep the planned GPUs. To plan for the new GPUs: "
                "doit doctor --accept"
            )
    yield from list_capability_warnings(opened.loaded, opened.host, opened.knowledge)
    yield from list_known_bad_warnings(opened.knowledge, opened.host, opened.choice)
