"""Layers of settings: their order, and the origin of each value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tasks.core.errors import SettingsError
from tasks.core.project import Project
from tasks.settings.layers_io import list_profiles, load_settings
from tasks.settings.loaded_settings import LoadedSettings

DEFAULT = """\
python: auto
target:
  gpus: auto
  ptx: false
torch:
  version: "2.15.0"
source:
  path: null
  mirrors: {}
build:
  jobs: auto
  flags: {}
  env: {}
extensions: []
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    (folder / "profiles").mkdir(parents=True)
    (folder / "default.yaml").write_text(DEFAULT, encoding="utf-8")
    (folder / "profiles" / "mine.yaml").write_text("", encoding="utf-8")
    return folder


def loaded(config: Path, profile: str = "", local: str = "", **environ: str) -> LoadedSettings:
    (config / "profiles" / "mine.yaml").write_text(profile, encoding="utf-8")
    if local:
        (config / "local.yaml").write_text(local, encoding="utf-8")
    variables = {f"TORCHYARD__{name}": text for name, text in environ.items()}
    return load_settings(Project.of_checkout(config.parent), "mine", variables)


def read_error(config: Path, name: str = "mine", environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as found:
        load_settings(Project.of_checkout(config.parent), name, environ or {})
    return str(found.value)


def test_later_layer_overrides_earlier_layer(config: Path) -> None:
    profile, local = "torch: {version: 2.9.0}\n", "torch: {version: 2.9.1}\n"
    assert loaded(config).settings.torch.version == "2.15.0"
    assert loaded(config, profile).settings.torch.version == "2.9.0"
    assert loaded(config, profile, local).settings.torch.version == "2.9.1"
    last = loaded(config, profile, local, TORCH__VERSION="2.10.0")
    assert last.settings.torch.version == "2.10.0"


def test_every_value_records_its_line_or_variable(config: Path) -> None:
    profile = "# mine\n\ntarget:\n  ptx: true\n"
    found = loaded(config, profile, "build:\n  jobs: 4\n", PYTHON="3.12").origin
    assert found["torch.version"] == "config/default.yaml:6"
    assert found["target.gpus"] == "config/default.yaml:3"
    assert found["target.ptx"] == "config/profiles/mine.yaml:4"
    assert found["build.jobs"] == "config/local.yaml:2"
    assert found["python"] == "TORCHYARD__PYTHON"


def test_sections_are_merged_and_lists_replaced(config: Path) -> None:
    first = "target: {gpus: ['12.0', '8.9']}\nbuild: {flags: {USE_A: true, USE_B: true}}\n"
    second = "target: {gpus: ['9.0']}\nbuild: {flags: {USE_B: false}}\n"
    found = loaded(config, first, second).settings
    assert found.target.gpus == ("9.0",)
    assert found.build.flags == {"USE_A": True, "USE_B": False}


def test_empty_section_removes_nothing(config: Path) -> None:
    found = loaded(config, "target: {gpus: ['9.0']}\n", "target: {}\n")
    assert found.settings.target.gpus == ("9.0",)
    assert found.origin["target.gpus"] == "config/profiles/mine.yaml:1"


def test_empty_file_changes_nothing(config: Path) -> None:
    plain = loaded(config)
    assert loaded(config, "", "# nothing yet\n") == plain
    assert loaded(config, "---\n") == plain


def test_byte_order_mark_is_ignored(config: Path) -> None:
    (config / "local.yaml").write_bytes("\ufeffpython: '3.12'\n".encode())
    assert load_settings(Project.of_checkout(config.parent), "mine", {}).settings.python == "3.12"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("PYTHON", "3.10", "3.10"),  # plain text needs no quotes
        ("TARGET__GPUS", '["RTX 5090", "12.0"]', ("RTX 5090", "12.0")),
        ("TARGET__GPUS", "[]", ()),
        ("TARGET__PTX", "true", True),
        ("BUILD__JOBS", "4", 4),
        ("SOURCE__PATH", "/src/pytorch", "/src/pytorch"),
        ("SOURCE__PATH", "null", None),
        ("SOURCE__PATH", "", None),
        ("VALIDATION__ONLY", "[import, cuda]", ("import", "cuda")),
        ("BUILD__FLAGS", "{USE_NCCL: false}", {"USE_NCCL": False}),
        ("BUILD__FLAGS__USE_NCCL", "false", {"USE_NCCL": "false"}),
        ("BUILD__ENV__CC", "clang", {"CC": "clang"}),
        ("SOURCE__MIRRORS", '{"https://a.org/": "b"}', {"https://a.org/": "b"}),
    ],
)
def test_variable_can_set_any_key(config: Path, name: str, text: str, value: Any) -> None:
    found: Any = loaded(config, **{name: text}).settings
    for key in name.lower().split("__")[:2]:
        found = getattr(found, key)
    assert found == value


def test_mapping_in_variable_keeps_other_keys(config: Path) -> None:
    found = loaded(config, "target: {ptx: true}\n", TARGET="{gpus: ['9.0']}")
    assert (found.settings.target.gpus, found.settings.target.ptx) == (("9.0",), True)
    assert found.origin["target.gpus"] == "TORCHYARD__TARGET"
    assert found.origin["target.ptx"] == "config/profiles/mine.yaml:1"


def test_variable_can_set_extensions(config: Path) -> None:
    found = loaded(config, EXTENSIONS="[{name: a, path: x}]").settings.extensions
    assert [(item.name, item.path) for item in found] == [("a", "x")]


def test_unrelated_variables_are_ignored(config: Path) -> None:
    unrelated = {"TORCHYARD": "x", "TORCHYARD_PROFILE": "y", "PYTHON": "z"}
    assert load_settings(Project.of_checkout(config.parent), "mine", unrelated)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"TORCHYARD__TARGET__GPU": "auto"},
            (
                'TORCHYARD__TARGET__GPU: target.gpu: unknown key; did you mean "gpus"?\n'
                "  → the keys of this section are: gpus, ptx"
            ),
        ),
        (
            {"TORCHYARD__BUILD_JOBS": "2"},
            (
                "TORCHYARD__BUILD_JOBS: build_jobs: unknown key\n"
                "  → did you mean TORCHYARD__BUILD__JOBS?"
            ),
        ),
        (
            {"TORCHYARD__PROFILE": "mine"},
            "TORCHYARD__PROFILE: profile: unknown key\n  → did you mean TORCHYARD_PROFILE?",
        ),
        (
            {"TORCHYARD__TARGET__GPUS": "RTX 5090"},
            (
                'TORCHYARD__TARGET__GPUS: target.gpus: "RTX 5090" is not accepted\n'
                '  → write auto or a list: ["…"]'
            ),
        ),
        (
            {"TORCHYARD__TARGET__GPUS": "[12.0]"},
            (
                "TORCHYARD__TARGET__GPUS: target.gpus.0: 12.0 is a number in YAML\n"
                '  → quote it: "12.0"'
            ),
        ),
        (
            {"TORCHYARD__TARGET__GPUS": "[a"},
            "TORCHYARD__TARGET__GPUS: not valid YAML: did not find expected ',' or ']'",
        ),
        (
            {"TORCHYARD__TARGET": "null"},
            (
                "TORCHYARD__TARGET: target: this key has no value\n"
                "  → write keys and values, or leave the key out"
            ),
        ),
        (
            {"TORCHYARD__TARGET__": "x"},
            (
                "TORCHYARD__TARGET__: this variable is no settings key\n"
                "  → rename the variable to TORCHYARD__SECTION__KEY"
            ),
        ),
        (
            {"TORCHYARD__TARGET": "{gpus: auto}", "TORCHYARD__TARGET__GPUS": "[]"},
            (
                "TORCHYARD__TARGET__GPUS: this variable and another variable both set target.gpus\n"
                "  → unset one of the two variables"
            ),
        ),
        (
            {"TORCHYARD__PYTHON": "3.12", "torchyard__python": "3.13"},
            (
                "torchyard__python: this variable and another variable both set python\n"
                "  → unset one of the two variables"
            ),
        ),
    ],
)
def test_invalid_variable_is_named(config: Path, environ: dict[str, str], message: str) -> None:
    assert read_error(config, environ=environ) == message


@pytest.mark.parametrize(
    "name", ["../mine", "../default", "./mine", "a/../mine", "/etc/passwd", "..", "", "*", "mine\0"]
)
def test_profile_is_name_and_never_path(config: Path, name: str) -> None:
    assert f'config/profiles: there is no profile "{name}"' in read_error(config, name)


def test_unknown_profile_is_refused_with_closest_and_all_names(config: Path) -> None:
    (config / "profiles" / "rtx5090.yaml").write_text("", encoding="utf-8")
    assert read_error(config, "rtx509") == (
        'config/profiles: there is no profile "rtx509"; did you mean "rtx5090"?\n'
        "  → choose one of: mine, rtx5090"
    )
    assert list_profiles(Project.of_checkout(config.parent)) == ("mine", "rtx5090")


def test_local_yaml_is_no_profile(config: Path) -> None:
    assert "→ config/local.yaml counts in every profile; choose one of" in read_error(
        config, "local"
    )
