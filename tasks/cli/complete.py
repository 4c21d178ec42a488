"""Complete a command line of doit for a shell: `python -m tasks.cli.complete -- "doit val"`.

Prints one word per line; with `--told`, a tab and a description follow. No profile is opened and
nothing slow is imported: doit would take half a second. Errors are silent because the user is
typing.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.cli.help_pages import BUILD_PAGE, COMMAND_PAGES, DOIT_COMMANDS, STAGE_PAGES
from tasks.system.stdio import guard_standard_streams

_ROOT = Path(__file__).resolve().parents[2]
_STAGES = {one.name: one.doc for one in (BUILD_PAGE, *STAGE_PAGES)}
_COMMANDS = {one.name: one for one in COMMAND_PAGES}
_TASKS = {**_STAGES, **{one.name: one.doc for one in COMMAND_PAGES}}
_COMMANDS_TAKING_TASKS = {"list", "help", "clean", "info", "forget", "run"}
_OPTION_VALUES = {
    "--way": ("auto", "prebuilt", "source", "existing"),
    "--workflow": ("github", "slurm"),
    "--shell": ("bash", "zsh"),
}
_DOIT_OPTIONS = {
    "list": {
        "--status": "how each stands",
        "--all": "each extension, too",
        "--quiet": "names alone",
    },
    "clean": {"--dry-run": "only tell what it would do"},
    "tabcompletion": {"--shell": "bash or zsh"},
}
_BUILD_OPTIONS = {"-a": "run every stage anew"}
Completions = Iterator[tuple[str, str]]


def find_completions(line: str, root: Path = _ROOT) -> Completions:
    """Yield the words that can complete `line`, each with a description."""
    *before, word = line.split(" ")
    before = [one for one in before[1:] if one]
    for name, meaning in _select_completions(before, word, root):
        if name.startswith(word):
            yield name, meaning


def _select_completions(before: list[str], word: str, root: Path) -> Completions:
    last = before[-1] if before else ""
    command = next((one for one in before if one in _TASKS or one in DOIT_COMMANDS), "")
    if word.startswith("profile="):
        return ((f"profile={name}", "") for name in _list_profile_names(root))
    if last in _OPTION_VALUES:
        return ((value, "") for value in _OPTION_VALUES[last])
    if _is_value_option(last):
        return iter(())
    return (
        _complete_options(command)
        if word.startswith("-")
        else _complete_tasks(command, before, word, root)
    )


def _complete_tasks(command: str, before: list[str], word: str, root: Path) -> Completions:
    if command not in _COMMANDS and (
        command not in DOIT_COMMANDS or command in _COMMANDS_TAKING_TASKS
    ):
        yield from _TASKS.items()
        yield from () if command else DOIT_COMMANDS.items()
        if word.startswith("ext"):
            yield from _complete_extensions(root, _read_profile_name(before))
    if not any(one.startswith("profile=") for one in before):
        yield "profile=", "another profile"


def _complete_options(command: str) -> Completions:
    if command in _COMMANDS:
        for option in _COMMANDS[command].options:
            yield f"--{option.name}", option.meaning
    yield from (_DOIT_OPTIONS.get(command, {}) if command else _BUILD_OPTIONS).items()


def _is_value_option(last: str) -> bool:
    """Return True if the option `last` takes a value, which the shell completes as a file."""
    options = (option for one in COMMAND_PAGES for option in one.options if option.value)
    return last in {f"--{option.name}" for option in options}


def _list_profile_names(root: Path) -> list[str]:
    return sorted(path.stem for path in (root / "config" / "profiles").glob("*.yaml"))


def _read_profile_name(before: list[str]) -> str:
    names = [one.partition("=")[2] for one in before if one.startswith("profile=")]
    return names[-1] if names else os.environ.get("TORCHYARD_PROFILE", "quickstart")


def _complete_extensions(root: Path, profile: str) -> Completions:
    """Yield `extensions:NAME` for each extension in the settings.

    The list of a later file replaces the list of an earlier one.
    """
    import yaml  # noqa: PLC0415 - only here

    entries: list[Any] = []
    for name in (f"profiles/{profile.partition('@')[0]}.yaml", "local.yaml"):
        path = root / "config" / name
        if not path.is_file():
            continue
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        document = yaml.load(path.read_text("utf-8-sig"), loader)  # noqa: S506 - a safe one
        entries = (document or {}).get("extensions", entries)
    for one in entries:
        yield f"extensions:{one if isinstance(one, str) else one['name']}", ""


def main(argv: list[str]) -> None:
    """Print the completions."""
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    for name, meaning in find_completions(argv[-1]):
        sys.stdout.write(f"{name}\t{meaning}\n" if "--told" in argv else f"{name}\n")


if __name__ == "__main__":
    with contextlib.suppress(Exception):
        guard_standard_streams()
        main(sys.argv[1:])
