"""Render help pages and task lists as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tasks.cli import help_pages
from tasks.core.model import compute_build_folder
from tasks.core.text_layout import format_labeled_lines, measure_columns, wrap_text

_PAGE_KEY_WIDTH, _PAGE_INDENT, _COLUMN_GAP = 11, 2, 2
_MAX_NAME_WIDTH = 30  # columns of a name beside its description
_STATE_WIDTH = len("up to date")  # columns of the widest state
HELP_PAGES: Mapping[str, help_pages.StagePage | help_pages.CommandPage] = {
    one.name: one
    for one in (help_pages.BUILD_PAGE, *help_pages.STAGE_PAGES, *help_pages.COMMAND_PAGES)
}


def render_overview(room: int, profile: str) -> Iterator[str]:
    """Yield the lines of `doit help`; `profile` is the default profile."""
    for need, steps in help_pages.TYPICAL_STEPS:
        yield need
        yield from _render_pairs(
            [(_fill_profile(profile, step), meaning) for step, meaning in steps], room
        )
        yield ""
    stages = ", ".join(stage.name for stage in help_pages.STAGE_PAGES)
    yield from wrap_text(
        "doit list tells every task in a line, doit help NAME tells of one: a stage "
        f"({stages}), or a command. profile=NAME after any of "
        f"them chooses a profile of config/profiles; without it that is {profile}.",
        room,
    )


def render_page(name: str, here: str, room: int, profile: str) -> Iterator[str] | None:
    """Return the lines of `doit help NAME`, or None if there is no such task.

    `here` describes what the stage does in this profile; "" if unknown.
    """
    page = HELP_PAGES.get(name.partition(":")[0])
    if isinstance(page, help_pages.CommandPage):
        return _render_command_page(page, room, profile)
    if page:
        return _render_stage_page(page, here, room, profile)
    if name in help_pages.DOIT_COMMANDS:
        return iter(wrap_text(f"doit {name}: {help_pages.DOIT_COMMANDS[name]}", room))
    return None


def _render_stage_page(
    one: help_pages.StagePage, here: str, room: int, profile: str
) -> Iterator[str]:
    yield from wrap_text(f"{one.name}: {one.doc}", room)
    yield ""
    run = f"doit {one.name} runs it with what it needs"
    entries = {
        "does": one.does,
        "here": "" if here == one.doc else here,
        "needs": one.needs,
        "makes": one.makes,
        "runs again": one.again,
        "settings": f"{', '.join(one.settings)} (docs/settings.md; doit settings: now)",
        "alone": one.alone or run,
        "log": f"build/PROFILE/logs/{one.log}" if one.log else "",
    }
    for key, text in entries.items():
        if text:
            yield from format_labeled_lines(
                key, _fill_profile(profile, text), _PAGE_KEY_WIDTH, room
            )


def _render_command_page(one: help_pages.CommandPage, room: int, profile: str) -> Iterator[str]:
    yield from wrap_text(f"{one.name}: {one.doc}", room)
    yield ""
    yield from wrap_text(_fill_profile(profile, one.more), room)
    if one.options:
        yield ""
        yield from _render_pairs(
            [(_format_option(option), option.meaning) for option in one.options], room
        )
    yield ""
    yield from format_labeled_lines("example", one.example, _PAGE_KEY_WIDTH, room)


def _fill_profile(profile: str, text: str) -> str:
    return text.replace("build/PROFILE", compute_build_folder(PurePosixPath(), profile).as_posix())


def _format_option(option: help_pages.CommandOption) -> str:
    return f"--{option.name} {option.value}".rstrip()


def _render_pairs(
    pairs: Sequence[tuple[str, str]], room: int, indent: int = _PAGE_INDENT
) -> Iterator[str]:
    """Yield names with their descriptions beside them; long names share the width with the text."""
    widest = max(measure_columns(name) for name, _ in pairs)
    width = indent + min(widest, _MAX_NAME_WIDTH, room // 2 - indent) + _COLUMN_GAP
    for name, text in pairs:
        yield from format_labeled_lines(f"{'':{indent}}{name}", text, width, room)


@dataclass(frozen=True)
class TaskRow:
    """A task of the list; `state` is set if states were requested."""

    name: str
    doc: str
    state: str = ""


def render_task_list(found: Iterable[TaskRow], room: int) -> Iterator[str]:
    """Yield the lines of `doit list`: build, the stages in order, then the commands by group.

    Subtasks follow their group. Unknown tasks are last, in doit's order.
    """
    remaining = {row.name: row for row in found}
    width = min(
        max((measure_columns(name) for name in remaining), default=0),
        max(room // 3, _MAX_NAME_WIDTH // 2),
    )
    for title, names in _list_groups(remaining):
        group = [remaining.pop(name) for name in names if name in remaining]
        if group:
            yield from _render_group(title, group, width, room)
    if remaining:
        yield from _render_group("others", list(remaining.values()), width, room)


def _list_groups(rest: Mapping[str, TaskRow]) -> Iterator[tuple[str, list[str]]]:
    stages = ["build", *(stage.name for stage in help_pages.STAGE_PAGES)]
    children = {stage: [name for name in rest if name.startswith(f"{stage}:")] for stage in stages}
    yield "build", [name for stage in stages for name in (stage, *children[stage])]
    for group in help_pages.COMMAND_GROUPS:
        yield group, [one.name for one in help_pages.COMMAND_PAGES if one.group == group]


def _render_group(title: str, group: Sequence[TaskRow], width: int, room: int) -> Iterator[str]:
    yield title
    for row in group:
        state = f"{row.state:<{_STATE_WIDTH}}  " if any(one.state for one in group) else ""
        key = f"{'':{_PAGE_INDENT}}{state}{row.name}"
        yield from format_labeled_lines(
            key, row.doc, _PAGE_INDENT + len(state) + width + _COLUMN_GAP, room
        )
