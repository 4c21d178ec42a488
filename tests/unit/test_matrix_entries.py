"""A matrix expands as on GitHub, and an entry is another layer of the settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.core.errors import SettingsError
from tasks.core.project import Project
from tasks.settings.layers_io import load_settings
from tasks.settings.matrix_entries import expand_matrix
from tasks.settings.schema import parse_settings
from tests.support.checkout import write
from tests.support.rows import each_row

TWO = {"torch": ["2.15.0", "2.14.1"], "python": ["3.12", "3.13"]}


def names(**matrix: Any) -> list[str]:
    return list(expand_matrix(parse_settings({"matrix": matrix}).matrix))


def test_entry_names_follow_the_order_of_the_axes() -> None:
    assert names(**TWO) == [
        "torch2.15.0-py3.12",
        "torch2.15.0-py3.13",
        "torch2.14.1-py3.12",
        "torch2.14.1-py3.13",
    ]


def test_entry_name_contains_cuda_and_targets() -> None:
    gpus = ["RTX 5060 Ti", ["8.9", "9.0a"], "sm_120"]
    assert names(cuda=["13.2", "auto"], gpus=gpus) == [
        *("cu132-rtx5060ti", "cu132-sm89.sm90a", "cu132-sm120"),
        *("rtx5060ti", "sm89.sm90a", "sm120"),
    ]


def test_entry_name_for_many_gpus_fits_a_directory_name() -> None:
    many = [f"RTX {number}090" for number in range(2, 40)]
    (name,) = names(gpus=[many])
    assert name.startswith("38gpus.")
    assert len(name) < 20


def test_cpu_build_is_the_same_entry_for_every_toolkit() -> None:
    assert names(cuda=["13.2", "12.8"], gpus=[[], "12.0"]) == ["cpu", "cu132-sm120", "cu128-sm120"]


def test_exclude_matches_by_some_values() -> None:
    assert names(**TWO, exclude=[{"torch": "2.14.1"}]) == [
        "torch2.15.0-py3.12",
        "torch2.15.0-py3.13",
    ]
    assert "torch2.14.1-py3.13" not in names(**TWO, exclude=[{"torch": "2.14.1", "python": "3.13"}])


def test_include_extends_entries_without_changing_their_axes() -> None:
    found = names(**TWO, include=[{"torch": "2.14.1", "cuda": "12.8"}, {"gpus": "12.0"}])
    assert found == [
        "torch2.15.0-py3.12-sm120",
        "torch2.15.0-py3.13-sm120",
        "torch2.14.1-py3.12-cu128-sm120",
        "torch2.14.1-py3.13-cu128-sm120",
    ]


def test_include_that_matches_no_entry_adds_one() -> None:
    found = names(**TWO, include=[{"torch": "2.9.0", "python": "3.12"}])
    assert found[-1] == "torch2.9.0-py3.12"
    assert len(found) == 5
    assert names(include=[{"torch": "2.9.0"}, {"gpus": []}]) == ["torch2.9.0", "cpu"]


def test_github_example_expands_as_on_github() -> None:
    """The example of docs.github.com, "Expanding or adding matrix configurations", with our axes: a
    later include can change values added by an earlier one, but no axis.
    """
    found = names(
        torch=["1.0.0", "2.0.0"],
        python=["3.12", "3.13"],
        include=[
            {"cuda": "1.0"},
            {"cuda": "2.0", "python": "3.12"},
            {"torch": "1.0.0", "gpus": "9.0"},
            {"torch": "3.0.0"},
            {"torch": "3.0.0", "python": "3.12"},
        ],
    )
    assert found == [
        "torch1.0.0-py3.12-cu20-sm90",
        "torch1.0.0-py3.13-cu10-sm90",
        "torch2.0.0-py3.12-cu20",
        "torch2.0.0-py3.13-cu10",
        "torch3.0.0",
        "torch3.0.0-py3.12",
    ]


def test_matrix_without_variation_has_no_entries() -> None:
    assert names() == []


def test_one_gpu_under_two_names_is_refused() -> None:
    with pytest.raises(SettingsError, match='2 entries of the matrix have the same name "rtx5090"'):
        names(gpus=["RTX 5090", "RTX5090"])


MATRIX = """\
torch: {version: 2.10.0}
matrix:
  torch: ["2.15.0", "2.14.1"]
  gpus: ["12.0", []]
  include: [{cuda: "13.2"}]
"""


def test_entry_overrides_all_settings_and_states_its_origin(yard: Path) -> None:
    write(yard, MATRIX)
    name = "torch2.14.1-cu132-sm120"
    project = Project.of_checkout(yard)
    loaded = load_settings(project, f"mine@{name}", {"TORCHYARD__TORCH__VERSION": "2.9.0"})
    assert loaded.settings.torch.version == "2.14.1"
    assert loaded.settings.target.gpus == ("12.0",)
    assert loaded.settings.toolkit.version == "13.2"
    assert loaded.origin["torch.version"] == f"config/profiles/mine.yaml:3 (matrix entry {name})"
    assert loaded.origin["toolkit.version"] == f"config/profiles/mine.yaml:5 (matrix entry {name})"
    assert loaded.profile == f"mine@{name}"
    assert load_settings(project, "mine", {}).settings.torch.version == "2.10.0"


@pytest.mark.parametrize(
    ("profile", "what"),
    [
        (
            "mine@torch2.14.1-cu132-sm12",
            'has no entry "torch2.14.1-cu132-sm12"; did you mean "torch2.14.',
        ),
        ("mine@", 'the matrix of "mine" has no entry ""'),
        ("mine@../../etc", 'has no entry "../../etc"'),
        ("quickstart@cpu", 'there is no profile "quickstart"'),
    ],
)
def test_unknown_entry_is_refused(yard: Path, profile: str, what: str) -> None:
    write(yard, MATRIX)
    with pytest.raises(SettingsError) as error:
        load_settings(Project.of_checkout(yard), profile, {})
    assert what in str(error.value)


def test_profile_without_matrix_has_no_entries(yard: Path) -> None:
    with pytest.raises(SettingsError, match='the profile "mine" has no matrix'):
        load_settings(Project.of_checkout(yard), "mine@cpu", {})


HOSTILE = ["$(touch x)", "`touch x`", "a;b", "a'b", 'a"b', "a\nb", "-o", "${{ x }}", "a|b", ""]


@each_row("text", HOSTILE)
@each_row("axis", ["torch", "python", "cuda", "gpus"])
def test_shell_syntax_is_refused_with_its_line(yard: Path, axis: str, text: str) -> None:
    write(yard, f"matrix:\n  {axis}: [{json.dumps(text)}]\n")
    with pytest.raises(SettingsError) as error:
        load_settings(Project.of_checkout(yard), "mine", {})
    assert f"config/profiles/mine.yaml:2: matrix.{axis}.0" in str(error.value)


def test_empty_matrix_entry_is_refused(yard: Path) -> None:
    write(yard, "matrix:\n  exclude:\n    - {}\n")
    with pytest.raises(SettingsError, match=r"config/profiles/mine\.yaml:3: matrix\.exclude\.0"):
        load_settings(Project.of_checkout(yard), "mine", {})
