"""Layers of a user's project: their order, its profiles, and mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.core.errors import SettingsError
from tasks.core.project import Project
from tasks.settings.layers_io import list_profiles, load_settings, read_default_profile
from tasks.settings.loaded_settings import LoadedSettings

VARIANT = "profiles: {rtx5090: {python: '%s'}, mine: {}}\n"
# From the weakest layer to the strongest, each with the file and the text that sets python
LAYERS = [
    ("torchyard/config/default.yaml", "python: '1'\n"),
    ("torchyard/config/profiles/rtx5090.yaml", "python: '2'\n"),
    ("user/config.yaml", "python: '3'\n"),
    ("project/torchyard.yaml", "python: '4'\n"),
    ("project/torchyard.yaml", f"python: '4'\n{VARIANT % 5}"),
    ("project/torchyard.local.yaml", "python: '6'\n"),
    ("project/torchyard.local.yaml", f"python: '6'\n{VARIANT % 7}"),
]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project without files, beside a torchyard with the profiles cpu and rtx5090."""
    code, root = tmp_path / "torchyard", tmp_path / "project"
    (code / "config" / "profiles").mkdir(parents=True)
    for name in ("default", "profiles/cpu", "profiles/rtx5090"):
        (code / "config" / f"{name}.yaml").write_text("", encoding="utf-8")
    root.mkdir()
    return Project.of_folder(root, code, tmp_path / "cache", tmp_path / "user" / "config.yaml")


def write(project: Project, text: str, name: str = "torchyard.yaml") -> None:
    Path(project.root, name).write_text(text, encoding="utf-8")


def load(project: Project, profile: str, local: str | None = None, **environ: str) -> str:
    """Return the Python version of a profile."""
    return _load(project, profile, local, **environ).settings.python


def _load(
    project: Project, profile: str, local: str | None = None, **environ: str
) -> LoadedSettings:
    return load_settings(project, profile, environ, local)


def read_error(project: Project, profile: str) -> str:
    with pytest.raises(SettingsError) as error:
        load_settings(project, profile, {})
    return str(error.value)


def test_later_layer_overrides_earlier_layer(project: Project, tmp_path: Path) -> None:
    for number, (name, text) in enumerate(LAYERS, 1):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        loaded = _load(project, "rtx5090")
        assert loaded.settings.python == str(number)
        place = str(path) if name.startswith("user") else name.partition("/")[2]
        assert loaded.origin["python"].startswith(f"{place}:")
    assert load(project, "rtx5090", TORCHYARD__PYTHON="8") == "8"
    assert load(project, "mine") == load(project, "default") == load(project, "cpu") == "6"


def test_other_text_replaces_torchyard_yaml_only(project: Project) -> None:
    write(project, "python: '1'\n")
    assert load(project, "default", "python: '2'\n") == "2"
    assert load(project, "cpu", VARIANT % 3) == "auto"
    assert load(project, "rtx5090", VARIANT % 3) == "3"
    write(project, "python: '4'\n", "torchyard.local.yaml")
    assert load(project, "default", "python: '2'\n") == "4"


def test_checkout_ignores_torchyard_yaml(project: Project) -> None:
    checkout = Project.of_checkout(project.code)
    write(checkout, "python: '1'\n")
    write(checkout, "python: '2'\n", "torchyard.local.yaml")
    assert load(checkout, "cpu") == "auto"
    assert list_profiles(checkout) == ("cpu", "rtx5090")
    assert read_default_profile(checkout) == "quickstart"
    write(checkout, "profile: cpu\n", "config/local.yaml")
    assert read_error(checkout, "cpu").startswith("config/local.yaml:1: profile: unknown key")


@pytest.mark.parametrize(
    ("text", "local", "default", "names"),
    [
        (None, "", "quickstart", ["cpu", "rtx5090"]),
        ("", "", "default", ["cpu", "default", "rtx5090"]),
        ("profile: cpu", "", "cpu", ["cpu", "default", "rtx5090"]),
        ("profile: cpu", "profile: mine\nprofiles: {mine: {}}", "mine",
         ["cpu", "default", "mine", "rtx5090"]),
        (VARIANT % 1, "", "default", ["cpu", "default", "mine", "rtx5090"]),
        ("profiles:", "", "default", ["cpu", "default", "rtx5090"]),
    ],
)  # fmt: skip
def test_profiles_are_built_in_or_in_the_files_of_the_project(
    project: Project, text: str | None, local: str, default: str, names: list[str]
) -> None:
    if text is not None:
        write(project, text)
        write(project, local, "torchyard.local.yaml")
    assert read_default_profile(project) == default
    assert list_profiles(project) == tuple(names)


@pytest.mark.parametrize("text", ["profile: 3", "profile: [cpu]", "profile: {cpu: {}}"])
def test_default_profile_is_a_name(project: Project, text: str) -> None:
    write(project, f"\n{text}\n")
    with pytest.raises(SettingsError, match=r"^torchyard\.yaml:2: profile is not a name"):
        read_default_profile(project)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("profiles: [mine]", "torchyard.yaml:1: profiles is not a mapping of names to settings"),
        ("profiles: mine", "torchyard.yaml:1: profiles is not a mapping of names to settings"),
        ("profiles:\n  mine: cpu", "torchyard.yaml:2: profiles.mine has no settings"),
        ("profiles:\n  mine: [a]", "torchyard.yaml:2: profiles.mine has no settings"),
        ("profiles:\n  mine: {pyton: '3'}", "torchyard.yaml:2: pyton: unknown key"),
        ("profiles: {mine: {profile: cpu}}", "torchyard.yaml:1: profile: unknown key"),
    ],
)
def test_malformed_profiles_are_refused(project: Project, text: str, message: str) -> None:
    write(project, text)
    assert read_error(project, "mine").startswith(message)


def test_user_settings_have_no_profiles(project: Project) -> None:
    path = Path(str(project.user_settings))
    path.parent.mkdir()
    path.write_text("profiles: {mine: {}}\n", encoding="utf-8")
    assert read_error(project, "cpu").startswith(f"{path}:1: profiles: unknown key")


def test_unknown_profile_is_refused_with_the_closest_and_all_names(project: Project) -> None:
    there_is = 'there is no profile "%s"%s\n  → %schoose one of: %s'
    create = "; or write a torchyard.yaml with this profile: docs/projects.md"
    assert read_error(project, "cpv") == f"{project.root}: " + there_is % (
        *("cpv", '; did you mean "cpu"?', "", f"cpu, rtx5090{create}"),
    )
    assert "torchyard.yaml counts in every profile; " in read_error(project, "default")
    write(project, VARIANT % 1)
    assert read_error(project, "minee") == "torchyard.yaml: " + there_is % (
        *("minee", '; did you mean "mine"?', "", "cpu, default, mine, rtx5090"),
    )
    assert 'no profile "../default"' in read_error(project, "../default")


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "a b", "é", "@", "-a"])
def test_name_of_a_profile_that_is_no_folder_name_is_refused(project: Project, name: str) -> None:
    write(project, f"profiles:\n  {name!r}: {{build: {{jobs: 1}}}}\n")
    assert "is not the name of a profile" in read_error(project, "default")
