"""`doit check`: each tool in turn, the site where it can be built; the first failure ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tasks.errors import BuildError, MissingToolError
from tasks.model import Command
from tasks.reports import check
from tasks.reports.subject import Subject
from tests.checkout import ROOT, Heard

SUBJECT = Subject(ROOT, "mine", None)


def ran(
    monkeypatch: pytest.MonkeyPatch,
    lacks: tuple[str, ...] = (),
    do: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """The tools of a run on a machine that has all modules but these."""
    there = {"tasks.reports.check.importlib.util.find_spec": lambda name: name not in lacks or None}
    found: list[str] = []

    def start(command: Command, *_: object) -> None:
        found.append(command.argv[2])
        do(command.argv[2])

    for name, stand_in in {**there, "tasks.reports.check.shell.run": start}.items():
        monkeypatch.setattr(name, stand_in)
    check.run(SUBJECT)
    return found


def test_lint_types_tests_and_the_site(monkeypatch: pytest.MonkeyPatch, heard: Heard) -> None:
    assert ran(monkeypatch) == ["ruff", "ruff", "mypy", "pytest", "mkdocs"]


@pytest.mark.parametrize("lacks", ["mkdocs", "material"])
def test_a_site_that_cannot_be_built_is_told(
    lacks: str, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    assert ran(monkeypatch, (lacks,)) == ["ruff", "ruff", "mypy", "pytest"]
    assert "not run: the site (pip install -e '.[docs]')" in heard.text


def test_a_tool_that_is_not_installed_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(MissingToolError, match="mypy not installed"):
        ran(monkeypatch, ("mypy",))


def test_the_first_failure_ends_it(monkeypatch: pytest.MonkeyPatch, heard: Heard) -> None:
    def fail(tool: str) -> None:
        raise BuildError(f"{tool} failed")

    with pytest.raises(BuildError, match="ruff failed"):
        ran(monkeypatch, do=fail)
    assert heard.text == "ruff check ."
