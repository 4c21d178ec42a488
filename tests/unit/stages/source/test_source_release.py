"""Tests of the release of a profile that builds the user's tree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.cli.session import open_profile
from tasks.core.errors import SettingsError
from tasks.core.project import Project
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tests.support.checkout import HOST, KNOWLEDGE, write
from tests.support.newest import DEFAULT_RELEASE, LATER_TORCH, NEWEST_RELEASE, NEXT_TORCH
from tests.support.toytree import make_tree

CPU: dict[str, Any] = {"target": {"gpus": []}}
AUTO: dict[str, Any] = {"version": "auto"}  # the release of the tree


def opened(yard: Path, version: str, python: str = "3.12.4", **more: Any) -> Profile:
    """Open a profile whose tree has that version, with the settings `more`."""
    make_tree(yard / "pytorch", version)
    torch = AUTO | more.pop("torch", {})
    write(yard, yaml.safe_dump({"source": {"path": "pytorch"}, "torch": torch, **more}))
    host = replace(HOST, python=replace(HOST.python, version=python))
    return open_profile(Project.of_checkout(yard), "mine", {}, KNOWLEDGE, lambda *_: host)


def job(profile: Profile, name: str) -> Any:
    return next(stage.job for stage in profile.plan.stages if stage.name == name)


@pytest.mark.parametrize(
    ("written", "release"),
    [
        *(("2.9.0", "2.9.0"), ("2.9.0a0", "2.9.0a0"), ("2.9.0.dev20250901", "2.9.0.dev20250901")),
        *(("2.9.1a0+acme.3", "2.9.1a0"), ("v2.9.0-rc1", "2.9.0rc1"), ("2.9", "2.9")),
        *(("2.9.0.post2", "2.9.0.post2"), ("\ufeff2.9.0a0\r\n", "2.9.0a0")),
        (f"{NEXT_TORCH}a0", f"{NEXT_TORCH}a0"),
    ],
)
def test_tree_version_is_default_release(yard: Path, written: str, release: str) -> None:
    profile = opened(yard, written)
    assert profile.choice.torch == release
    assert (job(profile, "wheel").release, job(profile, "env").torch) == (release, release)
    assert profile.loaded.origin["torch.version"] == str(yard / "pytorch" / "version.txt")
    assert profile.plan.warnings == ()


def test_knowledge_follows_tree_release(yard: Path) -> None:
    old = job(opened(yard, "2.6.0a0", **CPU), "deps")
    assert any(tool.startswith("cmake") and tool.endswith(",<4.0") for tool in old.tools)
    with pytest.raises(SettingsError, match=r"torch 2\.6\.0a0 supports Python 3\.9 to 3\.13"):
        opened(yard, "2.6.0a0", python="3.14.0", **CPU)
    assert opened(yard, "2.15.0a0", python="3.14.0", **CPU).choice.torch == "2.15.0a0"


@pytest.mark.parametrize("origin", ["profile", "local", "environment"])
def test_configured_release_wins_over_tree_with_warning(yard: Path, origin: str) -> None:
    torch: dict[str, Any] = {"torch": {"version": "2.14.0"}}
    source: dict[str, Any] = {"source": {"path": "pytorch"}}
    make_tree(yard / "pytorch", "2.9.0a0")
    write(yard, yaml.safe_dump({**source, **torch} if origin == "profile" else source))
    environ = {"TORCHYARD__TORCH__VERSION": "2.14.0"} if origin == "environment" else {}
    local = yaml.safe_dump(torch) if origin == "local" else ""
    profile = open_profile(
        Project.of_checkout(yard), "mine", environ, KNOWLEDGE, lambda *_: HOST, local
    )
    (warning,) = profile.plan.warnings
    assert profile.choice.torch == "2.14.0"
    assert f"{yard / 'pytorch' / 'version.txt'} says 2.9.0a0" in warning
    where = profile.loaded.origin["torch.version"]
    assert f"torch.version is 2.14.0 ({where})" in warning


@pytest.mark.parametrize("written", ["2.9.0a0", "2.9.0", "2.9.0+acme", "2.9", "2.9.0rc2", "none"])
def test_prerelease_or_unversioned_tree_causes_no_warning(yard: Path, written: str) -> None:
    profile = opened(yard, written, torch={"version": "2.9.0"})
    assert (profile.choice.torch, profile.plan.warnings) == ("2.9.0", ())


@pytest.mark.parametrize(
    ("written", "warned"), [("2.5.0a0", False), ("2.5.0", True), ("2.4.0a0", True)]
)
def test_patch_release_tag_may_carry_minor_prerelease_version(
    yard: Path, written: str, warned: bool
) -> None:
    """The tag v2.5.1 has version 2.5.0a0."""
    profile = opened(yard, written, torch={"version": "2.5.1"}, **CPU)
    assert (profile.choice.torch, bool(profile.plan.warnings)) == ("2.5.1", warned)


def test_failed_profile_shows_release_of_tree(
    yard: Path,
) -> None:
    with pytest.raises(SettingsError) as caught:
        opened(yard, "1.13.1")
    broken = SelectedProfile(Project.of_checkout(yard), "mine", None, caught.value)
    assert broken.read_settings().settings.torch.version == "1.13.1"
    with pytest.raises(SettingsError):
        opened(yard, "nothing")
    assert broken.read_settings().settings.torch.version == "auto"


def test_tree_does_not_affect_prebuilt_release(yard: Path) -> None:
    profile = opened(yard, "2.9.0a0", torch={"strategy": "prebuilt"})
    assert profile.choice.torch == DEFAULT_RELEASE.patch
    (warning,) = profile.plan.warnings
    assert warning.startswith("this profile does not use source.path")


@pytest.mark.parametrize(
    "written", ["", "main", "2.9.x", "version https://git-lfs.github.com/spec"]
)
def test_invalid_tree_version_is_reported_with_file_and_key(yard: Path, written: str) -> None:
    with pytest.raises(SettingsError) as caught:
        opened(yard, written)
    assert caught.value.location == str(yard / "pytorch" / "version.txt")
    assert "torch.version" in caught.value.hint
    assert opened(yard, written, torch={"version": "2.9.0"}).choice.torch == "2.9.0"


def test_version_file_with_merge_conflicts_is_reported(yard: Path) -> None:
    with pytest.raises(SettingsError, match=r"version\.txt has merge conflicts") as caught:
        opened(yard, "<<<<<<< HEAD\n2.9.0a0\n=======\n2.10.0a0\n>>>>>>> main")
    assert f'git -C "{yard / "pytorch"}" status' in caught.value.hint


@pytest.mark.parametrize(
    ("written", "release"), [(f"{LATER_TORCH}+acme", LATER_TORCH), ("2027.1", "2027.1")]
)
def test_fork_with_later_versions_has_assumed_facts(yard: Path, written: str, release: str) -> None:
    profile = opened(yard, written)
    assert profile.choice.torch == release
    origin = f"assumed to be as {NEWEST_RELEASE.patch}, because the index was not asked"
    assert profile.choice.facts == (f"torch {release}: {origin}",)
    assert profile.plan.warnings == ()


@pytest.mark.parametrize("written", ["1.13.1", "1!2.9.0"])
def test_fork_with_own_versions_needs_configured_release(yard: Path, written: str) -> None:
    with pytest.raises(SettingsError) as caught:
        opened(yard, written)
    assert "forked from" in caught.value.hint
    profile = opened(yard, written, torch={"version": "2.9.0"})
    assert profile.choice.torch == "2.9.0"
    assert len(profile.plan.warnings) == 1


def test_fork_with_unknown_release_builds_for_cpu(yard: Path) -> None:
    assert opened(yard, f"{LATER_TORCH}+acme", **CPU).choice.torch == LATER_TORCH


def test_version_txt_change_keeps_compile_fingerprint(yard: Path) -> None:
    newest, alpha = f"{NEWEST_RELEASE.minor}.0a0", f"{NEXT_TORCH}a0"
    before = {one.name: one.fingerprint for one in opened(yard, newest).plan.stages}
    after = {one.name: one.fingerprint for one in opened(yard, alpha).plan.stages}
    assert {name for name in before if before[name] != after[name]} == {"env", "wheel"}
    local = {one.name: one.fingerprint for one in opened(yard, f"{alpha}+acme").plan.stages}
    assert local == after
