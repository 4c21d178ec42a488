"""Render help pages and task lists as lines for a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tasks.cli import help_pages
from tasks.core import text_layout
from tasks.core.project import Project
from tasks.core.text_layout import format_labeled_lines, measure_columns
from tasks.system.invocation import adapt_message

_PAGE_KEY_WIDTH, _PAGE_INDENT, _COLUMN_GAP = 11, 2, 2
_MAX_NAME_WIDTH = 30  # maximum width of a name beside its description
_STATE_WIDTH = len("up to date")  # width of the widest state
HELP_PAGES: Mapping[str, help_pages.StagePage | help_pages.CommandPage] = {
    one.name: one
    for one in (help_pages.BUILD_PAGE, *help_pages.STAGE_PAGES, *help_pages.COMMAND_PAGES)
}


def render_overview(columns: int, profile: str) -> Iterator[str]:
    """Yield the lines of `doit help`; `profile` is the name of the default profile."""
    for title, steps in help_pages.TYPICAL_STEPS.items():
        pairs = [(_fill_profile(profile, step), doc) for step, doc in steps.items()]
        yield from (title, *_render_pairs(pairs, columns), "")
    stages = ", ".join(stage.name for stage in help_pages.STAGE_PAGES)
    yield from _wrap_text(
        f"doit list shows every task. doit help NAME explains one: a stage ({stages}) or a "
        "command. Add profile=NAME to any command to choose a profile; the default is "
        f"{profile}.",
        columns,
    )


def render_page(name: str, here: str, columns: int, profile: str) -> Iterator[str] | None:
    """Return the lines of `doit help NAME`, or None for an unknown name."""
    page = HELP_PAGES.get(name.partition(":")[0])
    if isinstance(page, help_pages.CommandPage):
        return _render_command_page(page, columns, profile)
    if page:
        return _render_stage_page(page, here, columns, profile)
    doc = help_pages.DOIT_COMMANDS.get(name)
    return iter(_wrap_text(f"doit {name}: {doc}", columns)) if doc else None


def _render_stage_page(
    one: help_pages.StagePage, here: str, columns: int, profile: str
) -> Iterator[str]:
    yield from (*_wrap_text(f"{one.name}: {one.doc}", columns), "")
    log = "extension-NAME" if one.name == "extensions" else one.name
    entries = {
        "does": one.does,
        "here": "" if here == one.doc else here,
        "needs": one.needs,
        "makes": one.makes,
        "runs again": one.again,
        "settings": f"{', '.join(one.settings)} (docs/settings.md; doit settings shows the values)",
        "start": one.start or f"doit {one.name} runs it and the stages that it needs",
        "log": "" if one.name == "build" else f"build/PROFILE/logs/{log}.log",
    }
    for key, text in entries.items():
        if text:
            filled = _fill_profile(profile, text)
            yield from format_labeled_lines(key, filled, _PAGE_KEY_WIDTH, columns)


def _render_command_page(one: help_pages.CommandPage, columns: int, profile: str) -> Iterator[str]:
    yield from (*_wrap_text(f"{one.name}: {one.doc}", columns), "")
    yield from _wrap_text(_fill_profile(profile, one.more), columns)
    if one.options:
        yield ""
        options = [(f"--{it.name} {it.value}".rstrip(), it.meaning) for it in one.options]
        yield from _render_pairs(options, columns)
    yield ""
    example = adapt_message(one.example)
    yield from format_labeled_lines("example", example, _PAGE_KEY_WIDTH, columns)


def _fill_profile(profile: str, text: str) -> str:
    folder = Project.of_checkout(PurePosixPath()).compute_build_folder(profile)
    return adapt_message(text).replace("build/PROFILE", folder.as_posix())


def _wrap_text(text: str, columns: int) -> list[str]:
    return list(text_layout.wrap_text(adapt_message(text), columns))


def _render_pairs(pairs: Sequence[tuple[str, str]], columns: int) -> Iterator[str]:
    """Yield the lines of a table of names and descriptions."""
    widest = max(measure_columns(name) for name, _ in pairs)
    width = min(widest, _MAX_NAME_WIDTH, columns // 2 - _PAGE_INDENT) + _PAGE_INDENT + _COLUMN_GAP
    for name, text in pairs:
        key = f"{'':{_PAGE_INDENT}}{name}"
        yield from format_labeled_lines(key, adapt_message(text), width, columns)


@dataclass(frozen=True)
class TaskRow:
    """A task in `doit list`. `state` is empty without the option `--status`."""

    name: str
    doc: str
    state: str = ""


def render_task_list(found: Iterable[TaskRow], columns: int) -> Iterator[str]:
    """Yield the lines of `doit list`: build, the stages in order, and the commands by group."""
    remaining = {row.name: row for row in found}
    groups: dict[str, list[str]] = {"build": []}
    for stage in ("build", *(page.name for page in help_pages.STAGE_PAGES)):
        groups["build"] += [stage, *(name for name in remaining if name.startswith(f"{stage}:"))]
    for page in help_pages.COMMAND_PAGES:
        groups.setdefault(page.group, []).append(page.name)
    groups["others"] = list(remaining)
    widest = max(map(measure_columns, remaining), default=0)
    width = min(widest, max(columns // 3, _MAX_NAME_WIDTH // 2))
    for title, names in groups.items():
        group = [remaining.pop(name) for name in names if name in remaining]
        if group:
            yield title
        for row in group:
            state = f"{row.state:<{_STATE_WIDTH}}  " if any(one.state for one in group) else ""
            key = f"{'':{_PAGE_INDENT}}{state}{row.name}"
            indent = _PAGE_INDENT + len(state) + width + _COLUMN_GAP
            yield from format_labeled_lines(key, row.doc, indent, columns)
