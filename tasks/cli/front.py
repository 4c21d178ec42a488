"""The command line of the installed command `torchyard`, over doit's API.

Each command becomes a command line of doit, and runs with the same tasks as `doit` in a checkout.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class
from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain, reset_vars, set_var
from doit.plugin import PluginDict

from tasks import __version__
from tasks.cli import help_pages, help_text
from tasks.cli.session import open_session
from tasks.cli.startup import finish_loading
from tasks.core.errors import TorchyardError
from tasks.core.project import Project
from tasks.core.text_formatting import find_nearest_word
from tasks.settings.layers_io import (
    PROJECT_PROFILE,
    list_profiles,
    load_settings,
    read_default_profile,
)
from tasks.system import invocation, screen
from tasks.system.find_project import find_project
from tasks.system.stdio import compute_exit_code
from torchyard import doit_commands

_USAGE_EXIT_CODE = 3  # as for wrong settings
_STAGES = {page.name: page for page in (help_pages.BUILD_PAGE, *help_pages.STAGE_PAGES)}
_COMMANDS = {
    page.name: page
    for page in help_pages.COMMAND_PAGES
    if page.group != help_pages.DEVELOPMENT  # these need a checkout
}
_ALWAYS = click.Option(["-a", "--always"], is_flag=True, help="run every stage again")
_SHELLS = ("bash", "zsh", "fish")
_PATH_VALUES = {"FILE", "FOLDER", "PATH", "PLACE", "PYTHON"}  # the shell completes file names


@dataclass
class _Globals:
    """The folder `code` of torchyard, and the profile given before the command."""

    code: Path = Path()
    profile: str = ""


def _read_options(ctx: click.Context) -> _Globals:
    return ctx.find_object(_Globals) or _Globals()


def _find_project(ctx: click.Context) -> Project:
    return find_project(Path.cwd(), _read_options(ctx).code)


def _complete_word(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _complete_profiles(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    names: Iterable[str] = ()
    with suppress(TorchyardError):
        names = list_profiles(_find_project(ctx))
    return _complete_word(incomplete, names)


def _complete_stages(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    names = [name for name in _STAGES if name != "build"]
    with suppress(TorchyardError):
        project = _find_project(ctx)
        profile = ctx.params.get("profile") or read_default_profile(project)
        loaded = load_settings(project, profile, os.environ)
        names += [f"extensions:{one.name}" for one in loaded.settings.extensions]
    return _complete_word(incomplete, names)


def _create_stages_argument() -> click.Argument:
    metavar = "[STAGE]..."
    return click.Argument(["words"], nargs=-1, metavar=metavar, shell_complete=_complete_stages)


def _create_profile_option() -> click.Option:
    return click.Option(
        ["-p", "--profile"],
        metavar="NAME",
        default="",
        help="a profile of torchyard.yaml, or a built-in one",
        shell_complete=_complete_profiles,
    )


# doit's own commands: their arguments and options
_DOIT_OPTIONS: dict[str, tuple[click.Parameter, ...]] = {
    "list": (
        click.Option(["-s", "--status"], is_flag=True, help="show the state of each task"),
        click.Option(["--all"], is_flag=True, help="also list each extension"),
        click.Option(["-q", "--quiet"], is_flag=True, help="print only the names"),
    ),
    "clean": (
        _create_stages_argument(),
        click.Option(["-n", "--dry-run"], is_flag=True, help="only show what would be removed"),
    ),
    "info": (click.Argument(["words"], nargs=1, metavar="STAGE"),),
    "forget": (_create_stages_argument(),),
}


class _Doit(DoitMain):  # type: ignore[misc]
    """doit with torchyard's commands only, and without `name=value` arguments."""

    BIN_NAME = "torchyard"
    DOIT_CMDS = (
        *(doit_commands.Help, doit_commands.Run, doit_commands.List, doit_commands.Clean),
        *(doit_commands.Info, doit_commands.Forget),
    )

    def __init__(self, namespace: dict[str, Any], profile: str) -> None:
        backend = {"sqlite3": "torchyard.doit_commands:open_database"}
        super().__init__(ModuleTaskLoader(namespace), (), {"BACKEND": backend})
        self._profile = profile

    def get_cmds(self) -> PluginDict:
        """Return the commands by name, without those of other packages."""
        return PluginDict({one.get_name(): one for one in self.DOIT_CMDS})

    def process_args(self, cmd_args: Sequence[str]) -> list[str]:
        """Return the arguments unchanged: a file name may contain an equals sign."""
        reset_vars()
        set_var("profile", self._profile)
        return list(cmd_args)


_HELP_NAMES: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


class _Command(click.Command):
    """A command whose help page is that of `torchyard help NAME`."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the page and the options."""
        _use_project(ctx)
        self.format_usage(ctx, formatter)
        columns, profile = screen.read_terminal_width(), invocation.read_default_profile()
        lines = help_text.render_page(self.name or "", "", columns, profile)
        formatter.write("\n" + "\n".join(lines or ()) + "\n")
        page_options = {
            f"--{one.name}" for one in getattr(_COMMANDS.get(self.name or ""), "options", ())
        }
        rows = [
            record
            for parameter in self.get_params(ctx)
            if not page_options.intersection(parameter.opts)
            if (record := parameter.get_help_record(ctx))
        ]
        if rows:
            with formatter.section("options of every command"):
                formatter.write_dl(rows)


class _Group(click.Group):
    """The command `torchyard`: its commands are the tasks of doit, and `completion`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help page."""
        return [*_STAGES, *_COMMANDS, *_DOIT_OPTIONS, "help", "completion"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command; `extensions:NAME` is the stage of one extension."""
        if cmd_name.partition(":")[0] in _STAGES:
            return _create_stage_command(cmd_name)
        if page := _COMMANDS.get(cmd_name):
            return _create_page_command(page)
        if options := _DOIT_OPTIONS.get(cmd_name):
            return _create_command(cmd_name, help_pages.DOIT_COMMANDS[cmd_name], options)
        return {"help": _HELP, "completion": _COMPLETION}.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first argument, or explain an unknown word."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise click.UsageError(_explain_unknown_command(ctx, args[0]))
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview: what to type, all commands, and the options before a command."""
        _use_project(ctx)
        self.format_usage(ctx, formatter)
        columns, profile = screen.read_terminal_width(), invocation.read_default_profile()
        overview = "\n".join(help_text.render_overview(columns, profile))
        formatter.write(f"\n{overview}\n\n")
        shown = {word for steps in help_pages.TYPICAL_STEPS.values() for word in steps}
        names = (name for name in self.list_commands(ctx) if f"doit {name}" not in shown)
        commands = (self.get_command(ctx, name) for name in names if name not in _STAGES)
        with formatter.section("other commands"):
            formatter.write_dl([(one.name or "", one.help or "") for one in commands if one])
        click.Command.format_options(self, ctx, formatter)


def _explain_unknown_command(ctx: click.Context, word: str) -> str:
    """Return the message for a word that is no command, with the command that was meant."""
    names = _GROUP.list_commands(ctx)
    with suppress(TorchyardError):
        if word in list_profiles(_find_project(ctx)):
            command = f"torchyard build --profile {word}"
            return f'"{word}" is a profile, not a command. To build it: {command}'
    nearest = find_nearest_word(word, names)
    suggestion = f"; did you mean {nearest}?" if nearest else "."
    return f'there is no command "{word}"{suggestion} List the commands: torchyard --help'


def _use_project(ctx: click.Context) -> Project:
    """Return the project of the current folder; write all messages for it."""
    project, default_profile = _find_project(ctx), PROJECT_PROFILE
    with suppress(TorchyardError):  # the error is reported when the settings are loaded
        default_profile = read_default_profile(project)
    invocation.set_invocation(project, default_profile, str(Path.cwd()))
    return project


def _create_command(name: str, doc: str, parameters: Sequence[click.Parameter]) -> click.Command:
    """Return a command that runs doit with its options and arguments."""

    @click.pass_context
    def run(
        ctx: click.Context, /, profile: str, words: Sequence[str] | str = (), **options: Any
    ) -> int:
        arguments = [words] if isinstance(words, str) else list(words)
        flags = [f"--{key.replace('_', '-')}" for key, value in options.items() if value is True]
        values = [
            f"--{key}={value}" for key, value in options.items() if value and value is not True
        ]
        return _run_doit(ctx, profile, [name, *flags, *values, *arguments])

    parameters = (*parameters, _create_profile_option())
    doc = invocation.format_for_torchyard(doc)
    return _Command(name, callback=run, params=list(parameters), help=doc, short_help=doc)


def _create_page_command(page: help_pages.CommandPage) -> click.Command:
    """Return the command of a help page."""
    parameters: list[click.Parameter] = [
        click.Option(
            [f"--{one.name}"],
            metavar=one.value or None,
            is_flag=not one.value,
            default="" if one.value else False,
            help=invocation.format_for_torchyard(one.meaning),
            type=click.Path() if one.value in _PATH_VALUES else None,
        )
        for one in page.options
    ]
    if page.takes:
        choices = click.Choice(page.choices) if page.choices else None
        metavar = f"[{page.takes}]..."
        argument = click.Argument(["words"], type=choices, nargs=-1, metavar=metavar)
        if page.takes == "WHEEL":  # doit could take `a=b.whl` for a variable
            argument.callback = lambda ctx, parameter, paths: [*map(os.path.abspath, paths)]
        parameters.append(argument)
    return _create_command(page.name, page.doc, parameters)


def _create_stage_command(name: str) -> click.Command:
    """Return the command of a stage; `build` takes the names of stages."""

    @click.pass_context
    def run(ctx: click.Context, /, always: bool, profile: str, words: Sequence[str] = ()) -> int:
        for word in words:
            if word.startswith("profile="):
                name_given = word.partition("=")[2]
                message = f'"{word}" is an argument of doit: write --profile {name_given} here'
                raise click.UsageError(message)
        selected = words or [name]
        return _run_doit(ctx, profile, ["run", *(["-a"] if always else []), *selected])

    stages = [_create_stages_argument()] if name == "build" else []
    parameters = [*stages, _ALWAYS, _create_profile_option()]
    doc = _STAGES[name.partition(":")[0]].doc
    return _Command(name, callback=run, params=parameters, help=doc, short_help=doc)


def _run_doit(ctx: click.Context, profile: str, words: list[str]) -> int:
    """Run a command line of doit for the project, and return its exit code."""
    project = _use_project(ctx)
    name = profile or _read_options(ctx).profile or invocation.read_default_profile()
    setup = open_session(project, name, os.environ, words)
    finish_loading()
    os.chdir(project.root)  # as doit does with the folder of dodo.py
    namespace = {"DOIT_CONFIG": setup.doit_config, "task_torchyard": setup.tasks}
    return int(_Doit(namespace, name).run(words) or 0)


def _complete_commands(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return _complete_word(incomplete, _GROUP.list_commands(ctx))


@click.pass_context
def _show_help(ctx: click.Context, /, name: str) -> int:
    root = ctx.find_root()
    command = _GROUP.get_command(root, name) if name else _GROUP
    if command is None:
        raise click.UsageError(_explain_unknown_command(root, name))
    click.echo(command.get_help(click.Context(command, root, name) if name else root))
    return 0


_HELP = click.Command(
    "help",
    callback=_show_help,
    params=[
        click.Argument(["name"], default="", metavar="[COMMAND]", shell_complete=_complete_commands)
    ],
    help="show this overview; help COMMAND explains one command",
)


def _print_completion(shell: str) -> int:
    if completion := get_completion_class(shell):
        click.echo(completion(_GROUP, {}, "torchyard", "_TORCHYARD_COMPLETE").source())
    return 0


_COMPLETION = click.Command(
    "completion",
    callback=_print_completion,
    params=[click.Argument(["shell"], type=click.Choice(_SHELLS))],
    help="print the completion script for a shell: bash, zsh or fish",
)


@click.pass_context
def _read_globals(ctx: click.Context, /, folder: str, profile: str) -> None:
    _read_options(ctx).profile = profile
    if folder:
        try:
            os.chdir(folder)
        except OSError as error:
            raise click.UsageError(f"-C {folder}: {error.strerror}") from None


_GROUP = _Group(
    "torchyard",
    context_settings=_HELP_NAMES,
    callback=_read_globals,
    params=[
        click.Option(
            ["-C", "folder"],
            metavar="DIR",
            default="",
            help="run in the folder DIR",
            type=click.Path(file_okay=False),
        ),
        _create_profile_option(),
    ],
    help="Build a PyTorch for your GPU, and the CUDA extensions of your project.",
)
click.version_option(__version__, prog_name="torchyard", message="%(prog)s %(version)s")(_GROUP)


def run_command_line(argv: Sequence[str], code: Path) -> int:
    """Run the command line, and return the exit code.

    It is 0 if all is done, 1 if a stage failed, 2 for a bug, and 3 for wrong settings or arguments.
    """
    doit_commands.activate()
    words = list(argv) or ["--help"]
    sys.argv[1:] = words  # doit's commands explain rejected words with it
    try:
        result = _GROUP.main(words, "torchyard", standalone_mode=False, obj=_Globals(code))
    except click.exceptions.Exit as end:
        return compute_exit_code(end.exit_code) or 0
    except click.Abort:
        return 130
    except click.UsageError as error:
        screen.configure_stream(sys.stderr)
        click.echo(f"ERROR: {error.format_message()}", err=True)
        if error.ctx and error.ctx.parent:
            click.echo(f"  → show its arguments: {error.ctx.command_path} --help", err=True)
        return _USAGE_EXIT_CODE
    except TorchyardError as error:
        screen.configure_stream(sys.stderr)
        text = screen.format_for_stderr(str(error), len("ERROR: "))
        click.echo(f"ERROR: {text}", err=True)
        return _USAGE_EXIT_CODE
    except OSError as error:
        screen.configure_stream(sys.stderr)
        place = f"{error.filename}: " if error.filename else ""
        click.echo(f"ERROR: {place}{error.strerror or error}", err=True)
        return 1
    return compute_exit_code(result if isinstance(result, int) else 0) or 0
