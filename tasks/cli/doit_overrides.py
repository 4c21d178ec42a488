"""Implement doit's commands for torchyard.doit_commands; explain rejected command lines."""

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from getopt import GetoptError
from pathlib import Path
from typing import Any

from doit import get_var
from doit.cmd_base import check_tasks_exist, subtasks_iter
from doit.exceptions import InvalidCommand

from tasks.cli import help_text
from tasks.cli.help_pages import DOIT_COMMANDS, CommandPage
from tasks.cli.help_text import HELP_PAGES
from tasks.cli.running.execute import Session
from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.project import Project
from tasks.core.text_formatting import find_nearest_word, format_did_you_mean
from tasks.system import screen
from tasks.system.console import Console
from tasks.system.invocation import add_profile_argument, read_default_profile, read_project


def show_task_list(
    session: Session | None,
    tasks: Iterable[Any],
    names: Sequence[str],
    *,
    subtasks: bool,
    status: bool,
) -> None:
    """Print the tasks `names`, or all tasks. Raises `InvalidCommand` if a name is unknown."""
    states = _read_stage_states(session) if session and status else {}
    by_name = {task.name: task for task in tasks}
    check_tasks_exist(by_name, names)
    selected = [by_name[name] for name in names]
    if not names:
        selected = [one for one in by_name.values() if subtasks or not one.subtask_of]
    elif subtasks:
        selected = [it for one in selected for it in (one, *subtasks_iter(by_name, one))]
    rows = [
        help_text.TaskRow(task.name, task.doc or "", states.get(task.name, ""))
        for task in selected
        if not task.name.startswith("_")
    ]
    console = session.console if session else Console(None)
    console.print_report("\n".join(help_text.render_task_list(rows, screen.read_terminal_width())))


def show_help_page(session: Session | None, tasks: Iterable[Any], name: str) -> None:
    """Print the help page of the task `name`. Raises `InvalidCommand` for an unknown task."""
    default_profile = get_var("profile") or read_default_profile()
    profile = session.layout.profile if session else default_profile
    docs = {task.name: task.doc or "" for task in tasks}
    lines = help_text.render_page(name, docs.get(name, ""), screen.read_terminal_width(), profile)
    if lines is None:
        suggestion = format_did_you_mean(name, (*HELP_PAGES, *docs))
        message = f'there is no task "{name}"{suggestion}'
        raise InvalidCommand(f"{message}\n  → list all tasks: doit list")
    console = session.console if session else Console(None)
    console.print_report("\n".join(lines))


def clean_stages(session: Session, names: Collection[str], *, dryrun: bool) -> None:
    """Print the result files of the stages in `names`, and remove them unless `dryrun` is set."""
    from tasks.cli.running.doit_tasks import list_result_files, remove_manifests  # noqa: PLC0415 - only to clean

    print_report, profile = session.console.print_report, session.layout.profile
    verb, has_results = "would remove" if dryrun else "removed", False
    for stage in (*session.plan.stages, session.plan.validate):
        paths = list_result_files(stage)
        if stage.name not in names or not paths:
            continue
        has_results = True
        if not dryrun:
            remove_manifests(stage)
        print_report(f"{verb} the results of {stage.name}: {', '.join(map(str, paths))}")
    if not has_results:
        print_report(f"nothing to remove: these stages of {profile} have no results")
    elif dryrun:
        print_report("nothing was removed")
    else:
        notice = add_profile_argument("the next doit build checks these stages again", profile)
        print_report(f"{notice}; sources, build folders, environments and wheels are kept")


def _read_stage_states(session: Session) -> Mapping[str, str]:
    """Return the state of each stage, as in `doit explain`, by the name of its task."""
    from tasks.cli.commands.explain import explain_stages  # noqa: PLC0415 - only for --status

    states: dict[str, str] = {one.stage: one.verdict for one in explain_stages(session.plan)}
    groups = {"build": set(states.values())}
    if found := {state for name, state in states.items() if name.startswith("extensions:")}:
        groups["extensions"] = found
    for group, members in groups.items():  # a group has the worst state of its stages
        worst = (state for state in ("runs", "may run") if state in members)
        states[group] = next(worst, "up to date")
    return {**dict.fromkeys(session.plan.absent, "not used"), **states}


def show_overview() -> None:
    """Print the overview of `doit help` without opening a profile."""
    lines = help_text.render_overview(screen.read_terminal_width(), read_default_profile())
    Console(None).print_report("\n".join(lines))


def show_requested_help(error: Any, words: Sequence[str], tasks: Iterable[Any]) -> bool:
    """Print the help page if doit rejected `--help` or `-h`. Return True if it was printed."""
    cause, tasks = error.__context__, tuple(tasks)
    if not isinstance(cause, GetoptError) or not cause.opt:
        return False
    line = CommandLine(tuple(words), tuple(task.name for task in tasks), ())
    name = find_help_topic(line, cause.opt)
    if name:
        show_help_page(None, tasks, name)
    elif name == "":
        show_overview()
    return name is not None


def translate_usage_error(error: Any, words: Sequence[str], rest: Sequence[str], tasks: Any) -> Any:
    """Return torchyard's error for an unknown word or option, or doit's own `error`.

    `rest` are the words that doit has not parsed yet. `tasks` are the tasks that it has loaded.
    """
    from tasks.settings.layers_io import list_profiles  # noqa: PLC0415 - not at load

    screen.configure_stream(sys.stderr)
    names = tuple(task.name for task in tasks)
    line = CommandLine(
        tuple(words), names, list_profiles(read_project() or Project.of_checkout(Path.cwd()))
    )
    cause, stray = error.__context__, None
    if isinstance(error, InvalidCommand):
        unknown = (one for one in rest if not one.startswith("-") and one not in line.names)
        stray = error.not_found or next(unknown, "")
    if isinstance(cause, GetoptError) and cause.opt:
        translated = explain_rejected_option(line, cause.opt, cause.msg)
    elif stray is not None and stray in words:
        translated = explain_unknown_word(line, stray)
    else:
        return error
    return InvalidCommand(screen.format_for_stderr(str(translated), len("ERROR: ")))


@dataclass(frozen=True)
class CommandLine:
    """The words after `doit`, and the existing tasks and profiles."""

    words: tuple[str, ...]
    tasks: tuple[str, ...]
    profiles: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all tasks and commands that may follow `doit`."""
        return tuple(dict.fromkeys((*HELP_PAGES, *self.tasks, *DOIT_COMMANDS)))

    def has_profile(self, profile: str) -> bool:
        """Return True if the profile exists. For a matrix entry NAME@CELL, only NAME is checked."""
        return profile.partition("@")[0] in self.profiles


def explain_unknown_word(line: CommandLine, stray: str) -> TorchyardError:
    """Return the error for the word `stray`, which is not a task."""
    at = line.words.index(stray)
    if stray == "profile":
        after = [one for one in line.words[at + 1 : at + 3] if one != "="][:1]
        wrong = ["profile", "=", *after]
        return _explain_profile_syntax(line, '"profile" is not a task', wrong, *after)
    if line.has_profile(stray):
        hint = _format_corrected_line(line, [stray], stray)
        return SettingsError(f'"{stray}" is a profile, not a task', hint=hint)
    if nearest := find_nearest_word(stray, line.names):
        correction = _format_command(nearest if one == stray else one for one in line.words)
        message = f'there is no task "{stray}"; did you mean "{nearest}"?'
        return SettingsError(message, hint=f"{correction}; list all tasks: doit list")
    suggestion = format_did_you_mean(stray, line.profiles)
    profiles = ", ".join(line.profiles)
    hint = f"list the tasks: doit list; choose a profile: profile=NAME, one of {profiles}"
    owner = _find_owner(line, at)  # as in `doit diagnose build.log`, where --log is missing
    if isinstance(HELP_PAGES.get(owner), CommandPage):
        hint = f"show its arguments: doit help {owner}; {hint}"
    return SettingsError(f'there is no task and no profile "{stray}"{suggestion}', hint=hint)


def explain_rejected_option(line: CommandLine, name: str, problem: str) -> TorchyardError:
    """Return the error for an option (`name`, without dashes) that doit rejected with `problem`."""
    at = _find_option_index(line, name)
    option, _, value = line.words[at].partition("=")
    after = [value] if value else list(line.words[at + 1 : at + 2])
    if option.lstrip("-") == "profile" or (option == "-p" and any(map(line.has_profile, after))):
        rejected = [line.words[at], *([] if value else after)]
        return _explain_profile_syntax(line, f"{option} is not an option", rejected, *after)
    owner = _find_owner(line, at)
    command, hint = f"doit {owner}".rstrip(), f"show its arguments: doit help {owner}"
    if "not recognized" not in problem:
        return SettingsError(f"{command}: {problem}", hint=hint)
    page = HELP_PAGES.get(owner)
    options = [f"--{one.name}" for one in page.options] if isinstance(page, CommandPage) else []
    if not owner:
        hint = "show what to type: doit help"
    elif page and not options:
        hint += "; to set a value, edit config/local.yaml or set TORCHYARD__SECTION__KEY"
    suggestion = format_did_you_mean(option, options)
    return SettingsError(f"{command} has no option {option}{suggestion}", hint=hint)


def find_help_topic(line: CommandLine, name: str) -> str | None:
    """Return the task before the option `--help` or `-h`, or "" if there is none.

    Returns `None` if `name` is another option.
    """
    at = _find_option_index(line, name)
    return _find_owner(line, at) if line.words[at] in {"--help", "-h"} else None


def _find_owner(line: CommandLine, at: int) -> str:
    """Return the last task or command before the word at index `at`, or an empty string."""
    return next((one for one in reversed(line.words[:at]) if one in line.names), "")


def _find_option_index(line: CommandLine, name: str) -> int:
    """Return the index of the word that contains the option `name`, or 0 if no word does."""
    for index, word in enumerate(line.words):
        is_short = len(name) == 1 and re.match("-[^-]", word) and name in word
        if is_short or word.partition("=")[0] == f"--{name}":
            return index
    return 0


def _explain_profile_syntax(
    line: CommandLine, wrong: str, dropped: Sequence[str], name: str = ""
) -> TorchyardError:
    """Return an error with a hint to write profile=NAME in place of the words `dropped`."""
    message = f"{wrong}: choose a profile with profile=NAME"
    if line.has_profile(name):
        return SettingsError(message, hint=_format_corrected_line(line, dropped, name))
    if name:
        suggestion = format_did_you_mean(name, line.profiles)
        message += f'; there is no profile "{name}"{suggestion}'
    corrected = _format_corrected_line(line, dropped, "NAME")
    hint = f"{corrected}, NAME is one of: {', '.join(line.profiles)}"
    return SettingsError(message, hint=hint)


def _format_corrected_line(line: CommandLine, dropped: Sequence[str], profile: str) -> str:
    """Return the command line without the words in `dropped`, and with a valid profile argument."""
    remaining = [one for one in line.words if one not in dropped and not one.startswith("profile=")]
    has_task = any(one in line.names for one in remaining)
    return _format_command([*remaining, *([] if has_task else ["build"]), f"profile={profile}"])


def _format_command(words: Iterable[str]) -> str:
    return " ".join(["doit", *(f'"{one}"' if " " in one else one for one in words)])
