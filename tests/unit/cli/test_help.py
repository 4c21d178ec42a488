"""`doit help` and `doit list` describe every task correctly and fit the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tasks.cli.help_pages import (
    BUILD_PAGE,
    COMMAND_GROUPS,
    COMMAND_PAGES,
    DEVELOPMENT,
    STAGE_PAGES,
    TYPICAL_STEPS,
    CommandPage,
    StagePage,
)
from tasks.cli.help_text import HELP_PAGES, TaskRow, render_overview, render_page, render_task_list
from tasks.cli.running.doit_tasks import generate_stage_tasks
from tasks.cli.session import generate_command_tasks
from tasks.core.model import Stage
from tasks.core.text_layout import measure_columns
from tasks.settings.schema import Settings
from tests.support.checkout import Heard, opened, write
from tests.support.rows import each_row

ROOT = Path(__file__).parents[3]
SOURCE = (
    "target: {gpus: ['12.0']}\ntorch: {strategy: source}\nextensions: [simple-knn]\n"
    "toolkit: {version: '13.0'}\ninstall: {into: /opt/env/bin/python}\n"
)


@pytest.fixture
def stages(yard: Path) -> dict[str, Stage]:
    """Return all possible stages by kind."""
    write(yard, SOURCE)
    plan = opened(yard).require_profile().plan
    return {stage.kind: stage for stage in (*plan.stages, plan.validate)}


def test_every_stage_has_a_help_page_in_run_order(stages: dict[str, Stage]) -> None:
    assert [one.name for one in STAGE_PAGES] == list(stages)


@pytest.mark.parametrize("one", STAGE_PAGES, ids=lambda one: one.name)
def test_help_page_names_log_and_manifests_of_its_stage(
    one: StagePage, stages: dict[str, Stage]
) -> None:
    stage = stages[one.name]
    lines = " ".join(render_page(one.name, "", 200, "quickstart") or ())
    log = Path(stage.job.log).name.replace("simple-knn", "NAME")
    assert f"/logs/{log}" in lines
    for path in stage.outputs:
        if one.name not in {"extensions", "env"}:
            assert Path(path).name in one.makes
    for path in stage.inputs:
        name = Path(path).stem
        needed = {"cache": "deps", "surface": "wheel", "extension-env": "env"}.get(name, name)
        if Path(path).parent.name != "extensions" and one.name != "validate":
            assert needed in one.needs, f"{one.name} reads {name}"


@each_row("one", [BUILD_PAGE, *STAGE_PAGES], ids=lambda one: one.name)
def test_help_page_names_only_existing_settings(one: StagePage) -> None:
    for key in one.settings:
        value: object = Settings()
        for part in key.split("."):
            value = getattr(value, part)


def test_every_command_is_a_task_with_its_options(yard: Path) -> None:
    tasks = {task["basename"]: task for task in generate_command_tasks(opened(yard))}
    assert list(tasks) == [one.name for one in COMMAND_PAGES]
    for one in COMMAND_PAGES:
        names = [param["long"] for param in tasks[one.name]["params"]]
        assert names == [option.name for option in one.options]
        assert tasks[one.name]["doc"] == one.doc


@each_row("one", COMMAND_PAGES, ids=lambda one: one.name)
def test_help_example_uses_only_existing_options(one: CommandPage) -> None:
    assert one.example.startswith(f"doit {one.name}")
    known = {f"--{option.name}" for option in one.options}
    assert set(re.findall(r"--[a-z]+", one.example)) <= known
    assert one.group in COMMAND_GROUPS


def test_commands_shown_in_help_are_valid() -> None:
    for steps in TYPICAL_STEPS.values():
        for line in steps:
            if line.startswith("doit "):
                assert line.split()[1] in HELP_PAGES


def test_docs_page_of_commands_lists_every_command() -> None:
    result = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for one in COMMAND_PAGES:
        program = "doit" if one.group == DEVELOPMENT else "torchyard"
        assert f"`{program} {one.name}" in result, one.name


@pytest.mark.parametrize("room", [60, 80, 120, 200])
def test_help_pages_fit_the_terminal(room: int) -> None:
    lines = list(render_overview(room, "quickstart"))
    for name in HELP_PAGES:
        lines += (
            render_page(name, "not part of this profile: strategy prebuilt", room, "mine") or ()
        )
    for line in lines:
        assert measure_columns(line) <= room or line.split()[0] == "example"


def test_stage_help_describes_the_stage_in_this_profile() -> None:
    result = list(render_page("wheel", "fetch the official wheel", 80, "mine@cu128") or ())
    assert "here       fetch the official wheel" in result
    assert "log        build/mine.cu128/logs/wheel.log" in result


def test_help_commands_name_directory_and_profile_in_use() -> None:
    result = " ".join(" ".join(render_overview(200, "quickstart")).split())
    assert "build/quickstart/run python … run any" in result
    assert "the default is quickstart." in result


def test_subtask_help_shows_its_group() -> None:
    result = list(render_page("extensions:simple-knn", "", 80, "mine") or ())
    assert result[0].startswith("extensions: ")


def test_unknown_task_has_no_help_page() -> None:
    assert render_page("biuld", "", 80, "mine") is None


def test_task_list_shows_stages_in_order_with_subtasks_below() -> None:
    names = ["validate", "wheel", "extensions:b", "build", "extensions", "extensions:a", "purge"]
    lines = list(render_task_list([TaskRow(name, "what it does") for name in names], 80))
    result = " ".join(line.split()[0] for line in lines if line.startswith(" "))
    assert result == "build wheel extensions extensions:b extensions:a validate purge"


def test_unknown_task_is_listed_under_others() -> None:
    assert list(render_task_list([TaskRow("mine", "my own")], 80)) == ["others", "  mine  my own"]


def test_stage_state_is_a_single_word() -> None:
    rows = [
        TaskRow("deps", "tools", "up to date"),
        TaskRow("wheel", "torch", "runs"),
        TaskRow("doctor", "look"),
    ]
    assert list(render_task_list(rows, 80)) == [
        "build",
        "  up to date  deps    tools",
        "  runs        wheel   torch",
        "begin",
        "  doctor  look",
    ]


@pytest.mark.parametrize("room", [60, 80, 120, 200])
def test_task_list_fits_the_terminal(room: int, yard: Path, heard: Heard) -> None:
    rows = [TaskRow(one.name, one.doc, "up to date") for one in (BUILD_PAGE, *STAGE_PAGES)]
    rows.append(
        TaskRow("extensions:diff-gaussian-rasterization-w-depth", "build it " * 12, "may run")
    )
    for line in render_task_list(rows, room):
        assert measure_columns(line) <= room


def test_graph_groups_have_the_same_text_as_help(yard: Path) -> None:
    from tasks.cli.running.execute import Session  # noqa: PLC0415
    from tasks.system.console import Console  # noqa: PLC0415 - a yard alone needs it

    profile = opened(yard).require_profile()
    found = Session(profile.plan, profile.layout, Console(profile.plan), lambda: None)
    docs = {
        task["basename"]: task["doc"] for task in generate_stage_tasks(found) if "name" not in task
    }
    assert docs["build"] == HELP_PAGES["build"].doc
