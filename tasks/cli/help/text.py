"""Pages and lists in lines for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tasks.cli.help.commands import COMMANDS, GROUPS, NEEDS, OF_DOIT
from tasks.cli.help.page import Command, Option, StagePage
from tasks.cli.help.stages import BUILD, STAGES
from tasks.core.formatting.bar import columns
from tasks.core.formatting.lines import rows, wrapped
from tasks.core.model import build_of

_KEYS, _INDENT, _GAP = 11, 2, 2
_WIDEST = 30  # columns of a name beside what is said of it
_STATES = len("up to date")  # columns of the widest
PAGES: Mapping[str, StagePage | Command] = {one.name: one for one in (BUILD, *STAGES, *COMMANDS)}


def overview(room: int, profile: str) -> Iterator[str]:
    """`doit help`; `profile` is the one that is taken where none is named."""
    for need, steps in NEEDS:
        yield need
        yield from _pairs([(_in(profile, step), meaning) for step, meaning in steps], room)
        yield ""
    yield from wrapped(
        "doit list tells every task in a line, doit help NAME tells of one: a stage "
        f"({', '.join(stage.name for stage in STAGES)}), or a command. profile=NAME after any of "
        f"them chooses a profile of config/profiles; without it that is {profile}.",
        room,
    )


def page(name: str, here: str, room: int, profile: str) -> Iterator[str] | None:
    """`doit help NAME`, None where there is no such task. `here` is what its stage does in this
    profile, "" where that is not known.
    """
    found = PAGES.get(name.partition(":")[0])
    if isinstance(found, Command):
        return _command(found, room, profile)
    if found:
        return _stage(found, here, room, profile)
    if name in OF_DOIT:
        return iter(wrapped(f"doit {name}: {OF_DOIT[name]}", room))
    return None


def _stage(one: StagePage, here: str, room: int, profile: str) -> Iterator[str]:
    yield from wrapped(f"{one.name}: {one.doc}", room)
    yield ""
    run = f"doit {one.name} runs it with what it needs"
    told = {
        "does": one.does,
        "here": "" if here == one.doc else here,
        "needs": one.needs,
        "makes": one.makes,
        "runs again": one.again,
        "settings": f"{', '.join(one.settings)} (docs/settings.md; doit settings: now)",
        "alone": one.alone or run,
        "log": f"build/PROFILE/logs/{one.log}" if one.log else "",
    }
    for key, text in told.items():
        if text:
            yield from rows(key, _in(profile, text), _KEYS, room)


def _command(one: Command, room: int, profile: str) -> Iterator[str]:
    yield from wrapped(f"{one.name}: {one.doc}", room)
    yield ""
    yield from wrapped(_in(profile, one.more), room)
    if one.options:
        yield ""
        yield from _pairs([(_written(option), option.meaning) for option in one.options], room)
    yield ""
    yield from rows("example", one.example, _KEYS, room)


def _in(profile: str, text: str) -> str:
    return text.replace("build/PROFILE", build_of(PurePosixPath(), profile).as_posix())


def _written(option: Option) -> str:
    return f"--{option.name} {option.value}".rstrip()


def _pairs(pairs: Sequence[tuple[str, str]], room: int, indent: int = _INDENT) -> Iterator[str]:
    """Names, and beside them what is said of each, as far as a name leaves room for it."""
    widest = max(columns(name) for name, _ in pairs)
    width = indent + min(widest, _WIDEST, room // 2 - indent) + _GAP
    for name, text in pairs:
        yield from rows(f"{'':{indent}}{name}", text, width, room)


@dataclass(frozen=True)
class Row:
    """A task of the list: with `state` where it was asked for."""

    name: str
    doc: str
    state: str = ""


def listed(found: Iterable[Row], room: int) -> Iterator[str]:
    """`doit list`: build, the stages in their order, then the commands by what they are for. What
    we do not know, a subtask with its group, stands where doit has it.
    """
    rest = {row.name: row for row in found}
    width = min(max((columns(name) for name in rest), default=0), max(room // 3, _WIDEST // 2))
    for title, names in _groups(rest):
        group = [rest.pop(name) for name in names if name in rest]
        if group:
            yield from _group(title, group, width, room)
    if rest:
        yield from _group("others", list(rest.values()), width, room)


def _groups(rest: Mapping[str, Row]) -> Iterator[tuple[str, list[str]]]:
    stages = ["build", *(stage.name for stage in STAGES)]
    below = {stage: [name for name in rest if name.startswith(f"{stage}:")] for stage in stages}
    yield "build", [name for stage in stages for name in (stage, *below[stage])]
    for group in GROUPS:
        yield group, [one.name for one in COMMANDS if one.group == group]


def _group(title: str, group: Sequence[Row], width: int, room: int) -> Iterator[str]:
    yield title
    for row in group:
        state = f"{row.state:<{_STATES}}  " if any(one.state for one in group) else ""
        key = f"{'':{_INDENT}}{state}{row.name}"
        yield from rows(key, row.doc, _INDENT + len(state) + width + _GAP, room)
