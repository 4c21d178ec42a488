"""Complete a command line of doit for a shell: `python -m tasks.cli.complete -- "doit val"`.

Each line of output is a word. With `--told`, a tab and a description follow. Nothing slow is
imported, and no error is printed, because the user is typing.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.cli.help_pages import BUILD_PAGE, COMMAND_PAGES, DOIT_COMMANDS, STAGE_PAGES
from tasks.system.stdio import guard_standard_streams

_ROOT = Path(__file__).resolve().parents[2]
_COMMANDS = {one.name: one for one in COMMAND_PAGES}
_TASKS = {one.name: one.doc for one in (BUILD_PAGE, *STAGE_PAGES, *COMMAND_PAGES)}
_COMMANDS_TAKING_TASKS = {"list", "help", "clean", "info", "forget", "run"}
_OPTION_VALUES = {
    "--way": ("auto", "prebuilt", "source", "existing"),
    "--workflow": ("github", "slurm", "docker"),
    "--shell": ("bash", "zsh"),
}
_VALUE_OPTIONS = {f"--{it.name}" for one in COMMAND_PAGES for it in one.options if it.value}
_DOIT_OPTIONS = {
    "": {"-a": "run every stage again"},  # doit without the name of a command builds
    "list": {
        "--status": "show the state of each task",
        "--all": "also list each extension",
        "--quiet": "print only the names",
    },
    "clean": {"--dry-run": "only show what would be removed"},
    "tabcompletion": {"--shell": "bash or zsh"},
}
Completions = Iterator[tuple[str, str]]


def find_completions(line: str, root: Path = _ROOT) -> Completions:
    """Yield the words that can complete `line`, each with a description."""
    *before, word = line.split(" ")
    found = _select_completions([one for one in before[1:] if one], word, root)
    yield from (pair for pair in found if pair[0].startswith(word))


def _select_completions(before: list[str], word: str, root: Path) -> Completions:
    last = before[-1] if before else ""
    command = next((one for one in before if one in _TASKS or one in DOIT_COMMANDS), "")
    profiles = [one.removeprefix("profile=") for one in before if one.startswith("profile=")]
    if word.startswith("profile="):
        names = sorted(path.stem for path in (root / "config" / "profiles").glob("*.yaml"))
        yield from ((f"profile={name}", "") for name in names)
        return
    if last in _OPTION_VALUES:
        yield from ((value, "") for value in _OPTION_VALUES[last])
    if last in {*_OPTION_VALUES, *_VALUE_OPTIONS}:  # the shell completes other values as files
        return
    if word.startswith("-"):
        own = _COMMANDS[command].options if command in _COMMANDS else ()
        yield from ((f"--{one.name}", one.meaning) for one in own)
        yield from _DOIT_OPTIONS.get(command, {}).items()
        return
    if command not in {*_COMMANDS, *DOIT_COMMANDS} or command in _COMMANDS_TAKING_TASKS:
        yield from _TASKS.items()
        yield from () if command else DOIT_COMMANDS.items()
        if word.startswith("ext"):
            default = os.environ.get("TORCHYARD_PROFILE", "quickstart")
            yield from _complete_extensions(root, profiles[-1] if profiles else default)
    if not profiles:
        yield "profile=", "choose a profile"


def _complete_extensions(root: Path, profile: str) -> Completions:
    """Yield `extensions:NAME` for each extension in config/local.yaml, or else in the profile."""
    import yaml  # noqa: PLC0415 - only here

    entries: list[Any] = []
    for name in (f"profiles/{profile.partition('@')[0]}.yaml", "local.yaml"):
        path = root / "config" / name
        if not path.is_file():
            continue
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        document = yaml.load(path.read_text("utf-8-sig"), loader)  # noqa: S506 - a safe loader
        entries = (document or {}).get("extensions", entries)
    for one in entries:
        yield f"extensions:{one if isinstance(one, str) else one['name']}", ""


if __name__ == "__main__":
    with contextlib.suppress(Exception):
        guard_standard_streams()
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        for name, meaning in find_completions(sys.argv[-1]):
            sys.stdout.write(f"{name}\t{meaning}\n" if "--told" in sys.argv else f"{name}\n")
