"""`doit check`: each tool in turn, the site where it can be built; the first failure ends it."""

from __future__ import annotations

import pytest
from pytest_mock import MockerFixture

from tasks.errors import BuildError, MissingToolError
from tasks.reports import check
from tasks.reports.subject import Subject
from tests.checkout import ROOT, Heard

SUBJECT = Subject(ROOT, "mine", None)


def ran(mocker: MockerFixture, lacks: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The commands of a run on a machine that has all modules but these."""
    there = "tasks.reports.check.importlib.util.find_spec"
    mocker.patch(there, side_effect=lambda name: None if name in lacks else object())
    run = mocker.patch("tasks.reports.check.shell.run")
    check.run(SUBJECT)
    return [call.args[0].argv[2:] for call in run.call_args_list]


def test_lint_types_tests_and_the_site(mocker: MockerFixture, heard: Heard) -> None:
    names = [argv[0] for argv in ran(mocker)]
    assert names == ["ruff", "ruff", "mypy", "pytest", "mkdocs"]


@pytest.mark.parametrize("lacks", ["mkdocs", "material"])
def test_a_site_that_cannot_be_built_is_told(
    lacks: str, mocker: MockerFixture, heard: Heard
) -> None:
    assert [argv[0] for argv in ran(mocker, (lacks,))] == ["ruff", "ruff", "mypy", "pytest"]
    assert "not run: the site (pip install -e '.[docs]')" in heard.text


def test_a_tool_that_is_not_installed_is_told_before_anything_runs(mocker: MockerFixture) -> None:
    with pytest.raises(MissingToolError, match="mypy not installed"):
        ran(mocker, ("mypy",))


def test_the_first_failure_ends_it(mocker: MockerFixture, heard: Heard) -> None:
    mocker.patch("tasks.reports.check.importlib.util.find_spec")
    mocker.patch("tasks.reports.check.shell.run", side_effect=BuildError("ruff failed"))
    with pytest.raises(BuildError, match="ruff failed"):
        check.run(SUBJECT)
    assert heard.text == "ruff check ."
