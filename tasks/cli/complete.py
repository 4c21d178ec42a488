"""What may come next on a command line of doit, for the completion of a shell: `python -m
tasks.cli.complete -- "doit val"` prints a word a line, with `--told` and a tab what it is.

It opens no profile and imports nothing that takes time: doit itself would take half a second. What
goes wrong is silent, for a person is in the middle of a line.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.cli.help.commands import COMMANDS, OF_DOIT
from tasks.cli.help.stages import BUILD, STAGES
from tasks.system.stdio import guard

_ROOT = Path(__file__).resolve().parents[2]
_STAGES = {one.name: one.doc for one in (BUILD, *STAGES)}
_COMMANDS = {one.name: one for one in COMMANDS}
_TASKS = {**_STAGES, **{one.name: one.doc for one in COMMANDS}}
_TAKE_TASKS = {"list", "help", "clean", "info", "forget", "run"}
_VALUES = {
    "--way": ("auto", "prebuilt", "source", "existing"),
    "--workflow": ("github", "slurm"),
    "--shell": ("bash", "zsh"),
}
_OPTIONS = {
    "list": {
        "--status": "how each stands",
        "--all": "each extension, too",
        "--quiet": "names alone",
    },
    "clean": {"--dry-run": "only tell what it would do"},
    "tabcompletion": {"--shell": "bash or zsh"},
}
_ALWAYS = {"-a": "run every stage anew"}
Words = Iterator[tuple[str, str]]


def candidates(line: str, root: Path = _ROOT) -> Words:
    """The words that can stand where `line` ends, each with what it is."""
    *before, word = line.split(" ")
    before = [one for one in before[1:] if one]
    for name, meaning in _candidates(before, word, root):
        if name.startswith(word):
            yield name, meaning


def _candidates(before: list[str], word: str, root: Path) -> Words:
    last = before[-1] if before else ""
    command = next((one for one in before if one in _TASKS or one in OF_DOIT), "")
    if word.startswith("profile="):
        return ((f"profile={name}", "") for name in _profiles(root))
    if last in _VALUES:
        return ((value, "") for value in _VALUES[last])
    if _takes_file(last):
        return iter(())
    return _options(command) if word.startswith("-") else _tasks(command, before, word, root)


def _tasks(command: str, before: list[str], word: str, root: Path) -> Words:
    if command not in _COMMANDS and (command not in OF_DOIT or command in _TAKE_TASKS):
        yield from _TASKS.items()
        yield from () if command else OF_DOIT.items()
        if word.startswith("ext"):
            yield from _extensions(root, _profile(before))
    if not any(one.startswith("profile=") for one in before):
        yield "profile=", "another profile"


def _options(command: str) -> Words:
    if command in _COMMANDS:
        for option in _COMMANDS[command].options:
            yield f"--{option.name}", option.meaning
    yield from (_OPTIONS.get(command, {}) if command else _ALWAYS).items()


def _takes_file(last: str) -> bool:
    """Whether the word before is an option with a value, which the shell completes as a file."""
    options = (option for one in COMMANDS for option in one.options if option.value)
    return last in {f"--{option.name}" for option in options}


def _profiles(root: Path) -> list[str]:
    return sorted(path.stem for path in (root / "config" / "profiles").glob("*.yaml"))


def _profile(before: list[str]) -> str:
    named = [one.partition("=")[2] for one in before if one.startswith("profile=")]
    return named[-1] if named else os.environ.get("TORCHYARD_PROFILE", "quickstart")


def _extensions(root: Path, profile: str) -> Words:
    """`extensions:NAME` of the settings; a later file's list replaces an earlier one's."""
    import yaml  # noqa: PLC0415 - only here

    listed: list[Any] = []
    for name in (f"profiles/{profile.partition('@')[0]}.yaml", "local.yaml"):
        path = root / "config" / name
        if not path.is_file():
            continue
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        found = yaml.load(path.read_text("utf-8-sig"), loader)  # noqa: S506 - a safe one
        listed = (found or {}).get("extensions", listed)
    for one in listed:
        yield f"extensions:{one if isinstance(one, str) else one['name']}", ""


def main(argv: list[str]) -> None:
    """Print them."""
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    for name, meaning in candidates(argv[-1]):
        sys.stdout.write(f"{name}\t{meaning}\n" if "--told" in argv else f"{name}\n")


if __name__ == "__main__":
    with contextlib.suppress(Exception):
        guard()
        main(sys.argv[1:])
