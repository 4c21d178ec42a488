"""What is told of a command line that doit refuses: what was meant, as it is typed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tasks.cli.help.commands import OF_DOIT
from tasks.cli.help.page import Command
from tasks.cli.help.text import PAGES
from tasks.core.errors import BuildError, SettingsError
from tasks.core.suggest import did_you_mean, nearest

_HELP = ("--help", "-h")
_NAMED = "a profile is named with profile=NAME"
_SETTINGS = "a setting goes into config/local.yaml, or is TORCHYARD__SECTION__KEY"


@dataclass(frozen=True)
class Line:
    """The words after `doit`; `tasks` and `profiles` are those that there are."""

    words: tuple[str, ...]
    tasks: tuple[str, ...]
    profiles: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Whatever may stand after `doit`."""
        return tuple(dict.fromkeys((*PAGES, *self.tasks, *OF_DOIT)))

    def has(self, profile: str) -> bool:
        """Whether there is that profile, or the one that it is a cell of."""
        return profile.partition("@")[0] in self.profiles


def word(line: Line, stray: str) -> BuildError:
    """`stray` is no task."""
    at = line.words.index(stray)
    if stray == "profile":
        after = [one for one in line.words[at + 1 : at + 3] if one != "="]
        return _profile(line, '"profile" is no task', [stray, "=", *after[:1]], *after[:1])
    if line.has(stray):
        todo = _typed(line, [stray], stray)
        return SettingsError(f'"{stray}" is a profile and no task', todo=todo)
    if near := nearest(stray, line.names):
        better = _shown(near if one == stray else one for one in line.words)
        what = f'there is no task "{stray}"; did you mean "{near}"?'
        return SettingsError(what, todo=f"{better}; doit list tells all of them")
    what = f'there is no task and no profile "{stray}"{did_you_mean(stray, line.profiles)}'
    todo = f"doit list tells the tasks; profile=NAME chooses one of: {', '.join(line.profiles)}"
    owner = _owner(line, at)  # `diagnose build.log`, where --log is meant
    if isinstance(PAGES.get(owner), Command):
        todo = f"doit help {owner} tells what it takes; {todo}"
    return SettingsError(what, todo=todo)


def option(line: Line, name: str, said: str) -> BuildError:
    """`name`, without its dashes, means nothing where it stands, or `said` is wrong with it."""
    at = _place(line, name)
    typed, _, value = line.words[at].partition("=")
    after = [value] if value else list(line.words[at + 1 : at + 2])
    if typed.lstrip("-") == "profile" or (typed == "-p" and any(map(line.has, after))):
        dropped = [line.words[at], *([] if value else after)]
        return _profile(line, f"{typed} is no option", dropped, *after)
    return _no_option(line, at, said)


def helped(line: Line, name: str) -> str | None:
    """Whose page `--help` or `-h` asks for, "" for that of all; None where `name` is no such."""
    at = _place(line, name)
    return _owner(line, at) if line.words[at] in _HELP else None


def _no_option(line: Line, at: int, said: str) -> BuildError:
    typed = line.words[at].partition("=")[0]
    owner = _owner(line, at)
    command = f"doit {owner}".rstrip()
    help_ = f"doit help {owner}".rstrip()
    if "not recognized" not in said:
        return SettingsError(f"{command}: {said}", todo=f"{help_} tells what it takes")
    known = PAGES.get(owner)
    takes = [f"--{one.name}" for one in known.options] if isinstance(known, Command) else []
    what = f"{command} has no option {typed}{did_you_mean(typed, takes)}"
    more = f"; {_SETTINGS}" if known and not takes else " tells what it takes" if owner else ""
    return SettingsError(what, todo=f"{help_}{more}")


def _owner(line: Line, at: int) -> str:
    """The task, or command, that the word there stands behind; "" for none."""
    return next((one for one in reversed(line.words[:at]) if one in line.names), "")


def _place(line: Line, name: str) -> int:
    """Which word holds the option."""
    return next((n for n, one in enumerate(line.words) if _has(one, name)), 0)


def _has(typed: str, name: str) -> bool:
    """Whether that word of the command line holds the option."""
    if typed.startswith("--"):
        return typed[2:].partition("=")[0] == name
    return len(name) == 1 and typed.startswith("-") and name in typed


def _profile(line: Line, wrong: str, dropped: Sequence[str], name: str = "") -> BuildError:
    """A profile was meant, and `dropped` is how it was written."""
    if line.has(name):
        return SettingsError(f"{wrong}: {_NAMED}", todo=_typed(line, dropped, name))
    no_such = f'; there is no profile "{name}"' if name else ""
    todo = f"{_typed(line, dropped, 'NAME')}, NAME being one of: {', '.join(line.profiles)}"
    meant = did_you_mean(name, line.profiles)
    return SettingsError(f"{wrong}: {_NAMED}{no_such}{meant}", todo=todo)


def _typed(line: Line, dropped: Sequence[str], profile: str) -> str:
    """The line with that profile, and without what was typed for it."""
    rest = [one for one in line.words if one not in dropped and not one.startswith("profile=")]
    named = any(one in line.names for one in rest)
    return _shown([*rest, *([] if named else ["build"]), f"profile={profile}"])


def _shown(words: Iterable[str]) -> str:
    return " ".join(["doit", *(f'"{one}"' if " " in one else one for one in words)])
