"""`doit check` runs each tool and the site build in turn and stops at the first failure."""

from __future__ import annotations

import pytest
from pytest_mock import MockerFixture

from tasks.cli.commands import check
from tasks.core.errors import MissingToolError, TorchyardError
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.system import shell
from tests.support.checkout import ROOT, Heard

SUBJECT = SelectedProfile(Project.of_checkout(ROOT), "mine", None)


def ran(mocker: MockerFixture, *lacks: str, ends: TorchyardError | None = None) -> list[str]:
    """Return the tools that ran on a machine that lacks the given modules."""
    found = mocker.patch("tasks.cli.commands.check.importlib.util.find_spec")
    found.side_effect = lambda name: name not in lacks or None
    run = mocker.patch.object(shell, "run_command", autospec=True, side_effect=ends)
    check.run(SUBJECT)
    return [call.args[0].argv[2] for call in run.call_args_list]


def test_check_runs_lint_types_tests_and_site(mocker: MockerFixture, heard: Heard) -> None:
    assert ran(mocker) == ["ruff", "ruff", "mypy", "pytest", "mkdocs"]


@pytest.mark.parametrize("lacks", ["mkdocs", "material"])
def test_unbuildable_site_is_reported(lacks: str, mocker: MockerFixture, heard: Heard) -> None:
    assert ran(mocker, lacks) == ["ruff", "ruff", "mypy", "pytest"]
    assert "the site was not built: to install mkdocs, run pip install -e '.[docs]'" in heard.text


def test_missing_tool_is_reported_before_any_tool_runs(
    mocker: MockerFixture,
) -> None:
    with pytest.raises(MissingToolError, match="mypy: not installed"):
        ran(mocker, "mypy")


def test_check_stops_at_first_failure(mocker: MockerFixture, heard: Heard) -> None:
    with pytest.raises(TorchyardError, match="ruff failed"):
        ran(mocker, ends=TorchyardError("ruff failed"))
    assert heard.text == "ruff check ."
