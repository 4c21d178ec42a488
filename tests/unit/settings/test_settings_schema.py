"""Shipped files: every profile loads, default.yaml lists every key, and editors get the schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from msgspec import ValidationError

from tasks.cli.commands.init_answers import Answers, format_local_yaml
from tasks.cli.generated_files import render_generated_files
from tasks.core.errors import SettingsError
from tasks.core.project import Project
from tasks.settings import values
from tasks.settings.layers_io import list_profiles, load_settings
from tasks.settings.schema import Extension, Settings, parse_settings
from tasks.settings.values import Section, list_fields
from tests.support.rows import each_row

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "config"
PROJECT = Project.of_checkout(ROOT)
SHIPPED = tuple(name for name in list_profiles(PROJECT) if not name.startswith("local-"))
DEFAULT = yaml.safe_load((CONFIG / "default.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((CONFIG / "schema.json").read_text(encoding="utf-8"))


def keys(model: type[Section], prefix: str = "") -> Iterator[str]:
    for name, default in list_fields(model):
        if isinstance(default, Section):
            yield from keys(type(default), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def leaves(tree: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_documented_profiles_are_shipped() -> None:
    promised = {
        "quickstart", "rtx5090", "rtx5090-source", "cuda124-torch25", "libtorch-debug", "cpu",
        "windows-rtx5090", "debian-trixie-cpu", "debian-trixie-cuda",
    }  # fmt: skip
    assert set(SHIPPED) == promised


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profiles_load_and_match_schema(name: str, tmp_path: Path) -> None:
    config = tmp_path / "config"
    (config / "profiles").mkdir(parents=True)
    for file in ("default.yaml", f"profiles/{name}.yaml"):
        (config / file).write_bytes((CONFIG / file).read_bytes())
    assert load_settings(Project.of_checkout(tmp_path), name, {}).profile == name
    content = yaml.safe_load((CONFIG / "profiles" / f"{name}.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(content, SCHEMA)


def test_default_yaml_lists_exactly_all_keys() -> None:
    assert sorted(leaves(DEFAULT)) == sorted(keys(Settings))


def test_default_yaml_matches_model_defaults() -> None:
    assert parse_settings(DEFAULT) == Settings()
    jsonschema.validate(DEFAULT, SCHEMA)


def test_default_yaml_names_every_extension_key() -> None:
    comment = (CONFIG / "default.yaml").read_text(encoding="utf-8").partition("extensions: []")[2]
    example = comment.partition("validation:")[0]
    for key, _ in list_fields(Extension):
        if key != "sha256":
            assert key in example


def test_schema_json_is_up_to_date() -> None:
    """Regenerate with: python -m tasks.cli.generated_files"""
    kept = (CONFIG / "schema.json").read_text(encoding="utf-8")
    assert kept == render_generated_files()["config/schema.json"]


def test_schema_knows_the_profiles_of_a_project() -> None:
    fast = {"target": {"gpus": ["RTX 5090"]}}
    jsonschema.validate({"profile": "fast", "profiles": {"fast": fast, "same": None}}, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"profiles": {"fast": {"targets": {}}}}, SCHEMA)


def test_schema_is_valid_and_describes_every_key() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["title"] == "torchyard settings"
    assert "$id" not in SCHEMA
    for section in SCHEMA["$defs"].values():
        for name, described in section["properties"].items():
            assert described.get("description"), name


@pytest.mark.parametrize(
    "bad",
    [
        {"tagret": {}},
        {"python": 3.1},
        {"target": {"gpus": [12.0]}},
        {"build": {"flags": {"CC": "gcc"}}},
        {"build": {"jobs": 0}},
        {"extensions": [{"name": "a", "sdist": "torch-cluster"}]},
    ],
)
def test_schema_refuses_what_loader_refuses(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        parse_settings(bad)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(bad, SCHEMA)


FILES = [CONFIG / "default.yaml", *(CONFIG / "profiles" / f"{name}.yaml" for name in SHIPPED)]


@each_row("file", FILES, ids=lambda file: file.stem)
def test_first_line_of_file_points_to_schema(file: Path) -> None:
    first = file.read_text(encoding="utf-8").splitlines()[0]
    place = first.removeprefix("# yaml-language-server: $schema=")
    assert (file.parent / place).resolve() == CONFIG / "schema.json"


def test_check_jsonschema_accepts_shipped_and_generated_files(tmp_path: Path) -> None:
    local = tmp_path / "local.yaml"
    own = Answers(("RTX 5090",), "existing", ("gsplat", {"name": "a", "path": "b"}), "/p", "/q")
    local.write_text(format_local_yaml(own), encoding="utf-8")
    done = checked(*FILES, local)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("tagret: {gpus: auto}", "tagret"),
        ("build: {job: 3}", "build.job"),
        ("matrix: {gpu: [cpu]}", "matrix.gpu"),
    ],
)
def test_schema_and_loader_refuse_typo_with_same_key(text: str, key: str, tmp_path: Path) -> None:
    local = tmp_path / "local.yaml"
    local.write_text(text, encoding="utf-8")
    done = checked(local)
    assert done.returncode == 1
    above, _, wrong = key.rpartition(".")
    assert f"$.{above}:".replace("$.:", "$:") in done.stdout
    assert f"'{wrong}' was unexpected" in done.stdout
    with pytest.raises(SettingsError) as error:
        load_settings(PROJECT, "quickstart", {}, text)
    assert error.value.message.startswith(f"{key}: unknown key")
    assert error.value.location == "config/local.yaml:1"


def checked(*files: Path) -> subprocess.CompletedProcess[str]:
    """Validate files with the schema only, like an editor does."""
    argv = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(CONFIG / "schema.json")]
    return subprocess.run(
        [*argv, *map(str, files)],
        env={**os.environ, "NO_COLOR": "1", "PYTHONUTF8": "1", "COLUMNS": "400"},
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip


def test_every_pattern_has_hint() -> None:
    found = set(patterns(SCHEMA))
    assert found == {pattern.replace(r"\Z", "$") for pattern in values.PATTERN_HINTS}


def patterns(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from patterns(item)
    elif isinstance(node, dict):
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        yield from node.get("patternProperties", {})
        for value in node.values():
            yield from patterns(value)


def test_cache_off_is_accepted_as_yaml_false() -> None:
    assert parse_settings(yaml.safe_load("build: {cache: off}")).build.cache == "off"
    with pytest.raises(ValidationError):
        parse_settings(yaml.safe_load("build: {cache: on}"))


def test_settings_are_frozen() -> None:
    settings: Any = Settings()
    with pytest.raises(AttributeError, match="immutable"):
        settings.python = "3.12"


def test_tilde_expands_to_home_of_current_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("USERPROFILE", "/home/me")
    given = {
        "source": {"path": "~/src/pytorch", "patches": ["~/a.patch", "b.patch"]},
        "toolkit": {"path": "~/cuda"},
        "wheel": {"wheelhouse": "~/wheels"},
        "extensions": [{"name": "mine", "path": "~/mine"}],
    }
    settings = parse_settings(given)
    assert settings.source.path == "/home/me/src/pytorch"
    assert settings.source.patches == ("/home/me/a.patch", "b.patch")
    assert settings.toolkit.path == "/home/me/cuda"
    assert settings.wheel.wheelhouse == "/home/me/wheels"
    assert settings.extensions[0].path == "/home/me/mine"
