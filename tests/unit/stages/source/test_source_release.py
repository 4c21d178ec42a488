"""A profile that builds a person's own tree: by which release it is decided, and who says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.cli.session import open_profile
from tasks.core.errors import SettingsError
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tests.support.checkout import HOST, KNOWLEDGE, write
from tests.support.toytree import make_tree

CPU: dict[str, Any] = {"target": {"gpus": []}}


def opened(yard: Path, version: str, python: str = "3.12.4", **more: Any) -> Profile:
    """The profile with a tree that calls itself that, and nothing else but `more`."""
    make_tree(yard / "pytorch", version)
    write(yard, yaml.safe_dump({"source": {"path": "pytorch"}, **more}))
    host = replace(HOST, python=replace(HOST.python, version=python))
    return open_profile(yard, "mine", {}, KNOWLEDGE, lambda *_: host)


def job(profile: Profile, name: str) -> Any:
    return next(stage.job for stage in profile.plan.stages if stage.name == name)


@pytest.mark.parametrize(
    ("written", "release"),
    [
        *(("2.9.0", "2.9.0"), ("2.9.0a0", "2.9.0a0"), ("2.9.0.dev20250901", "2.9.0.dev20250901")),
        *(("2.9.1a0+acme.3", "2.9.1a0"), ("v2.9.0-rc1", "2.9.0rc1"), ("2.9", "2.9")),
        *(("2.9.0.post2", "2.9.0.post2"), ("\ufeff2.9.0a0\r\n", "2.9.0a0")),
        ("2.16.0a0", "2.16.0a0"),
    ],
)
def test_without_a_word_of_the_settings_the_tree_decides(
    yard: Path, written: str, release: str
) -> None:
    profile = opened(yard, written)
    assert profile.choice.torch == release
    assert (job(profile, "wheel").release, job(profile, "env").torch) == (release, release)
    assert profile.loaded.origin["torch.version"] == str(yard / "pytorch" / "version.txt")
    assert profile.plan.warnings == ()


def test_facts_are_those_of_the_trees_release(yard: Path) -> None:
    old = job(opened(yard, "2.6.0a0", **CPU), "deps")
    assert any(tool.startswith("cmake") and tool.endswith(",<4.0") for tool in old.tools)
    with pytest.raises(SettingsError, match=r"torch 2\.6\.0a0 is for Python 3\.9 to 3\.13"):
        opened(yard, "2.6.0a0", python="3.14.0", **CPU)
    assert opened(yard, "2.15.0a0", python="3.14.0", **CPU).choice.torch == "2.15.0a0"


@pytest.mark.parametrize("said", ["profile", "local", "environment"])
def test_a_release_that_somebody_set_counts_and_the_tree_is_a_warning(
    yard: Path, said: str
) -> None:
    torch: dict[str, Any] = {"torch": {"version": "2.14.0"}}
    source: dict[str, Any] = {"source": {"path": "pytorch"}}
    make_tree(yard / "pytorch", "2.9.0a0")
    write(yard, yaml.safe_dump({**source, **torch} if said == "profile" else source))
    environ = {"TORCHYARD__TORCH__VERSION": "2.14.0"} if said == "environment" else {}
    local = yaml.safe_dump(torch) if said == "local" else ""
    profile = open_profile(yard, "mine", environ, KNOWLEDGE, lambda *_: HOST, local)
    (warning,) = profile.plan.warnings
    assert profile.choice.torch == "2.14.0"
    assert f"{yard / 'pytorch' / 'version.txt'} says 2.9.0a0" in warning
    where = profile.loaded.origin["torch.version"]
    assert f"torch.version is 2.14.0 ({where})" in warning


@pytest.mark.parametrize("written", ["2.9.0a0", "2.9.0", "2.9.0+acme", "2.9", "2.9.0rc2", "none"])
def test_a_release_that_the_tree_comes_before_or_does_not_say_is_no_warning(
    yard: Path, written: str
) -> None:
    profile = opened(yard, written, torch={"version": "2.9.0"})
    assert (profile.choice.torch, profile.plan.warnings) == ("2.9.0", ())


@pytest.mark.parametrize(
    ("written", "warned"), [("2.5.0a0", False), ("2.5.0", True), ("2.4.0a0", True)]
)
def test_the_tag_of_a_patch_may_say_that_it_comes_before_the_first_of_its_minor(
    yard: Path, written: str, warned: bool
) -> None:
    """That of v2.5.1 says 2.5.0a0."""
    profile = opened(yard, written, torch={"version": "2.5.1"}, **CPU)
    assert (profile.choice.torch, bool(profile.plan.warnings)) == ("2.5.1", warned)


def test_a_profile_that_cannot_be_planned_shows_the_release_that_it_was_tried_with(
    yard: Path,
) -> None:
    with pytest.raises(SettingsError) as caught:
        opened(yard, "3.1.0")
    broken = SelectedProfile(yard, "mine", None, caught.value)
    assert broken.read_settings().settings.torch.version == "3.1.0"
    with pytest.raises(SettingsError):
        opened(yard, "nothing")
    assert broken.read_settings().settings.torch.version == "2.15.0"


def test_a_wheel_that_is_fetched_is_not_decided_by_the_tree(yard: Path) -> None:
    profile = opened(yard, "2.9.0a0", torch={"strategy": "prebuilt"})
    assert profile.choice.torch == "2.15.0"
    (told,) = profile.plan.warnings
    assert told.startswith("nothing reads source.path")


@pytest.mark.parametrize(
    "written", ["", "main", "2.9.x", "version https://git-lfs.github.com/spec"]
)
def test_a_version_that_is_none_names_the_file_and_the_key(yard: Path, written: str) -> None:
    with pytest.raises(SettingsError) as caught:
        opened(yard, written)
    assert caught.value.location == str(yard / "pytorch" / "version.txt")
    assert "torch.version" in caught.value.hint
    assert opened(yard, written, torch={"version": "2.9.0"}).choice.torch == "2.9.0"


def test_version_file_with_merge_conflicts_is_reported(yard: Path) -> None:
    with pytest.raises(SettingsError, match=r"version\.txt has merge conflicts") as caught:
        opened(yard, "<<<<<<< HEAD\n2.9.0a0\n=======\n2.10.0a0\n>>>>>>> main")
    assert f'git -C "{yard / "pytorch"}" status' in caught.value.hint


@pytest.mark.parametrize("written", ["3.1.0+acme", "1.13.1", "2027.1", "1!2.9.0"])
def test_a_fork_that_counts_for_itself_is_built_by_the_facts_of_what_it_was_forked_from(
    yard: Path, written: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        opened(yard, written)
    assert "forked from" in caught.value.hint
    profile = opened(yard, written, torch={"version": "2.9.0"})
    assert profile.choice.torch == "2.9.0"
    assert len(profile.plan.warnings) == 1


def test_a_fork_of_unknown_release_is_its_own_judge_on_the_cpu(yard: Path) -> None:
    assert opened(yard, "3.1.0+acme", **CPU).choice.torch == "3.1.0"


def test_a_pull_that_moves_version_txt_moves_no_input_of_what_compiles(yard: Path) -> None:
    before = {one.name: one.fingerprint for one in opened(yard, "2.15.0a0").plan.stages}
    after = {one.name: one.fingerprint for one in opened(yard, "2.16.0a0").plan.stages}
    assert {name for name in before if before[name] != after[name]} == {"env", "wheel"}
    local = {one.name: one.fingerprint for one in opened(yard, "2.16.0a0+acme").plan.stages}
    assert local == after
