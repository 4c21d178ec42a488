"""What is told of a command line that doit refuses: what was meant, as it is typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tasks.cli.help_pages import DOIT_COMMANDS, CommandPage
from tasks.cli.help_text import HELP_PAGES
from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.text_formatting import find_nearest_word, format_did_you_mean

_HELP_FLAGS = ("--help", "-h")
_PROFILE_SYNTAX = "a profile is named with profile=NAME"
_SETTING_SYNTAX = "a setting goes into config/local.yaml, or is TORCHYARD__SECTION__KEY"


@dataclass(frozen=True)
class CommandLine:
    """The words after `doit`; `tasks` and `profiles` are those that there are."""

    words: tuple[str, ...]
    tasks: tuple[str, ...]
    profiles: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Whatever may stand after `doit`."""
        return tuple(dict.fromkeys((*HELP_PAGES, *self.tasks, *DOIT_COMMANDS)))

    def has_profile(self, profile: str) -> bool:
        """Whether there is that profile, or the one that it is a cell of."""
        return profile.partition("@")[0] in self.profiles


def explain_unknown_word(line: CommandLine, stray: str) -> TorchyardError:
    """`stray` is no task."""
    at = line.words.index(stray)
    if stray == "profile":
        after = [one for one in line.words[at + 1 : at + 3] if one != "="]
        return _explain_profile_syntax(
            line, '"profile" is no task', [stray, "=", *after[:1]], *after[:1]
        )
    if line.has_profile(stray):
        todo = _format_corrected_line(line, [stray], stray)
        return SettingsError(f'"{stray}" is a profile and no task', hint=todo)
    if near := find_nearest_word(stray, line.names):
        better = _format_command(near if one == stray else one for one in line.words)
        what = f'there is no task "{stray}"; did you mean "{near}"?'
        return SettingsError(what, hint=f"{better}; doit list tells all of them")
    what = f'there is no task and no profile "{stray}"{format_did_you_mean(stray, line.profiles)}'
    todo = f"doit list tells the tasks; profile=NAME chooses one of: {', '.join(line.profiles)}"
    owner = _find_owner(line, at)  # `diagnose build.log`, where --log is meant
    if isinstance(HELP_PAGES.get(owner), CommandPage):
        todo = f"doit help {owner} tells what it takes; {todo}"
    return SettingsError(what, hint=todo)


def explain_rejected_option(line: CommandLine, name: str, said: str) -> TorchyardError:
    """`name`, without its dashes, means nothing where it stands, or `said` is wrong with it."""
    at = _find_option_index(line, name)
    typed, _, value = line.words[at].partition("=")
    after = [value] if value else list(line.words[at + 1 : at + 2])
    if typed.lstrip("-") == "profile" or (typed == "-p" and any(map(line.has_profile, after))):
        dropped = [line.words[at], *([] if value else after)]
        return _explain_profile_syntax(line, f"{typed} is no option", dropped, *after)
    return _explain_unknown_option(line, at, said)


def find_help_topic(line: CommandLine, name: str) -> str | None:
    """Whose page `--help` or `-h` asks for, "" for that of all; None where `name` is no such."""
    at = _find_option_index(line, name)
    return _find_owner(line, at) if line.words[at] in _HELP_FLAGS else None


def _explain_unknown_option(line: CommandLine, at: int, said: str) -> TorchyardError:
    typed = line.words[at].partition("=")[0]
    owner = _find_owner(line, at)
    command = f"doit {owner}".rstrip()
    help_ = f"doit help {owner}".rstrip()
    if "not recognized" not in said:
        return SettingsError(f"{command}: {said}", hint=f"{help_} tells what it takes")
    known = HELP_PAGES.get(owner)
    takes = [f"--{one.name}" for one in known.options] if isinstance(known, CommandPage) else []
    what = f"{command} has no option {typed}{format_did_you_mean(typed, takes)}"
    more = (
        f"; {_SETTING_SYNTAX}" if known and not takes else " tells what it takes" if owner else ""
    )
    return SettingsError(what, hint=f"{help_}{more}")


def _find_owner(line: CommandLine, at: int) -> str:
    """The task, or command, that the word there stands behind; "" for none."""
    return next((one for one in reversed(line.words[:at]) if one in line.names), "")


def _find_option_index(line: CommandLine, name: str) -> int:
    """Which word holds the option."""
    return next((n for n, one in enumerate(line.words) if _has_option(one, name)), 0)


def _has_option(typed: str, name: str) -> bool:
    """Whether that word of the command line holds the option."""
    if typed.startswith("--"):
        return typed[2:].partition("=")[0] == name
    return len(name) == 1 and typed.startswith("-") and name in typed


def _explain_profile_syntax(
    line: CommandLine, wrong: str, dropped: Sequence[str], name: str = ""
) -> TorchyardError:
    """A profile was meant, and `dropped` is how it was written."""
    if line.has_profile(name):
        return SettingsError(
            f"{wrong}: {_PROFILE_SYNTAX}", hint=_format_corrected_line(line, dropped, name)
        )
    no_such = f'; there is no profile "{name}"' if name else ""
    todo = (
        f"{_format_corrected_line(line, dropped, 'NAME')}, NAME being one of: "
        f"{', '.join(line.profiles)}"
    )
    meant = format_did_you_mean(name, line.profiles)
    return SettingsError(f"{wrong}: {_PROFILE_SYNTAX}{no_such}{meant}", hint=todo)


def _format_corrected_line(line: CommandLine, dropped: Sequence[str], profile: str) -> str:
    """The line with that profile, and without what was typed for it."""
    rest = [one for one in line.words if one not in dropped and not one.startswith("profile=")]
    named = any(one in line.names for one in rest)
    return _format_command([*rest, *([] if named else ["build"]), f"profile={profile}"])


def _format_command(words: Iterable[str]) -> str:
    return " ".join(["doit", *(f'"{one}"' if " " in one else one for one in words)])
