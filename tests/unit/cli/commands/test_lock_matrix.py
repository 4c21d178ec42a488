"""`doit lock` of a profile with a matrix: one section per build, each locked separately."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec import structs

from tasks.cli.commands import lock
from tasks.cli.session import open_profile, open_session
from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.project import Project
from tasks.lock.lock_file import (
    LockedInputs,
    LockSection,
    parse_section,
    replace_section,
    split_sections,
)
from tasks.lock.opened_profile_io import Profile as Opened
from tasks.lock.opened_profile_io import SelectedProfile
from tests.support.checkout import RELEASE, Heard, write
from tests.support.systems import needs_git

MATRIX = """\
matrix:
  torch: ["2.15.0", "2.6.0"]
  gpus: ["12.0", []]
torch: {strategy: prebuilt}
"""
NEW, OLD = "mine@torch2.15.0-cpu", "mine@torch2.6.0-cpu"
CUDA = "mine@torch2.15.0-sm120"
IMPOSSIBLE = "mine@torch2.6.0-sm120"  # that torch has no code for the GPU


@pytest.fixture
def built(yard: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The built profiles and their build inputs."""
    write(yard, MATRIX)
    names = {NEW, OLD, CUDA}

    class Finished:
        left_out: ClassVar[dict[str, str]] = {}

        def __init__(self, profile: Opened) -> None:
            self.name = profile.layout.profile
            self.release = profile.choice.torch.partition("+")[0]

        def build_section(self) -> LockSection:
            if self.name not in names:
                todo = "doit build, then the same command again"
                raise TorchyardError("what is to be locked is not built", hint=todo)
            made = LockedInputs(wheel=f"torch-{self.release}-py3-none-any.whl", sha256="1" * 64)
            return LockSection(
                python="3.12",
                platform="linux x86_64",
                strategy="prebuilt",
                release=self.release,
                torch=made,
            )

    monkeypatch.setattr(lock, "FinishedBuild", Finished)
    return names


def locked(yard: Path) -> str:
    path = yard / "torchyard.lock"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def of(yard: Path, name: str = "mine") -> SelectedProfile:
    project = Project.of_checkout(yard)
    return SelectedProfile(project, name, open_profile(project, name, {}))


def test_every_matrix_build_has_a_lock_section(yard: Path, built: set[str], heard: Heard) -> None:
    lock.run(of(yard))
    assert set(split_sections(locked(yard))) == built, "the profile itself is not built"
    held = parse_section(locked(yard), OLD)
    assert held is not None
    assert held.release == "2.6.0"
    assert any(IMPOSSIBLE in line and "machine cannot build it" in line for line in heard)
    lock.run(of(yard), check=True)


def test_locking_one_build_by_name_leaves_other_sections_unchanged(
    yard: Path, built: set[str]
) -> None:
    lock.run(of(yard, NEW))
    assert set(split_sections(locked(yard))) == {NEW}
    lock.run(of(yard, NEW), check=True)
    with pytest.raises(TorchyardError, match=f"no section for profile {OLD}"):
        lock.run(of(yard, OLD), check=True)


def test_unfinished_build_does_not_prevent_locking_others(
    yard: Path, built: set[str], heard: Heard
) -> None:
    built.remove(NEW)
    with pytest.raises(TorchyardError, match=f"1 of 4 builds of the matrix are not locked: {NEW}"):
        lock.run(of(yard))
    assert set(split_sections(locked(yard))) == {OLD, CUDA}
    assert any(NEW in line and "is not built" in line for line in heard)


def test_lock_difference_names_the_build(yard: Path, built: set[str], heard: Heard) -> None:
    lock.run(of(yard))
    path = yard / "torchyard.lock"
    before = split_sections(locked(yard))[OLD][1]
    after = before.replace("1" * 64, "2" * 64)
    path.write_text(locked(yard).replace(before, after), encoding="utf-8")
    with pytest.raises(TorchyardError, match=f"different from the lock: {OLD}\n"):
        lock.run(of(yard), check=True)
    assert any("torch.sha256: 222222222222 → 111111111111" in line for line in heard)
    lock.run(of(yard))
    assert split_sections(locked(yard))[OLD][1] == before


def test_profile_without_entry_is_locked_too_if_built(yard: Path, built: set[str]) -> None:
    built.add("mine")
    subject = of(yard)
    subject.build.mkdir(parents=True, exist_ok=True)
    (subject.build / "deps.json").touch()
    lock.run(subject)
    assert "mine" in split_sections(locked(yard))


def test_unbuilt_optional_extension_keeps_its_lock_entry(
    yard: Path, built: set[str], heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock.run(of(yard, NEW))
    assert "is optional" not in heard.text
    away = {"far": "its source could not be reached"}
    monkeypatch.setattr("tasks.cli.commands.lock.FinishedBuild.left_out", away)
    lock.run(of(yard, NEW), check=True)
    assert "far is optional and was not built (its source could not be reached)" in heard.text
    assert "it is not in torchyard.lock; a build fetches it as the settings say" in heard.text
    held = parse_section(locked(yard), NEW)
    assert held is not None
    made = LockedInputs(git="https://git.example/far", ref="main", commit="1" * 40)
    more = structs.replace(held, extensions={"far": made})
    (yard / "torchyard.lock").write_text(replace_section(locked(yard), NEW, more), encoding="utf-8")
    lock.run(of(yard, NEW))
    assert "its entry in torchyard.lock is kept" in heard.text
    assert parse_section(locked(yard), NEW) == more


@needs_git
def test_optional_extension_with_unresolvable_ref_keeps_its_lock_entry(
    yard: Path, built: set[str], heard: Heard
) -> None:
    far = {"name": "far", "git": str(yard / "nowhere"), "ref": "main"}
    asked = "torch: {strategy: prebuilt}\nextensions: ["
    made = LockedInputs(git=far["git"], ref="main", commit="1" * 40)
    write(yard, f"{asked}{far}]\n")
    built.add("mine")
    lock.run(of(yard))
    held = parse_section(locked(yard), "mine")
    assert held is not None
    text = replace_section("", "mine", structs.replace(held, extensions={"far": made}))
    (yard / "torchyard.lock").write_text(text, encoding="utf-8")
    with pytest.raises(TorchyardError, match="did not report the commit of main"):
        lock.run(of(yard), update=True)
    write(yard, f"{asked}{ {**far, 'optional': True} }]\n")
    lock.run(of(yard), update=True)
    assert "far, so its entry in torchyard.lock is kept" in heard.text
    assert locked(yard) == text


def test_matrix_builds_are_locked_even_if_profile_cannot_be_planned(
    yard: Path, built: set[str], heard: Heard
) -> None:
    project = Project.of_checkout(yard)
    alone = "companions: [torchaudio]\ntorch: {strategy: prebuilt}\n"
    write(yard, alone)
    with pytest.raises(SettingsError, match=f"not torch {re.escape(RELEASE)}"):
        open_session(project, "mine", {}, ["lock"])
    write(yard, f'{alone}matrix: {{torch: ["2.6.0", "2.15.0"], gpus: [[]]}}\n')
    with pytest.raises(SettingsError, match=f"not torch {re.escape(RELEASE)}"):
        open_session(project, "mine", {}, ["build"])
    assert list(open_session(project, "mine", {}, ["profile=mine", "lock", "--check"]).tasks())
    subject = SelectedProfile(project, "mine", None, SettingsError("cannot be planned"))
    with pytest.raises(TorchyardError, match=f"1 of 2 builds of the matrix are not locked: {NEW}"):
        lock.run(subject)
    assert set(split_sections(locked(yard))) == {OLD}
    told = next(line for line in heard if NEW in line)
    assert "companions: torchaudio 2.11.0 is the last release" in told
    assert told.endswith("; or exclude only this build with matrix.exclude")


@pytest.mark.parametrize("check", [False, True])
def test_damaged_section_fails_even_if_unbuildable_here(
    yard: Path, built: set[str], heard: Heard, check: bool
) -> None:
    lock.run(of(yard))
    path = yard / "torchyard.lock"
    text = locked(yard).replace(f"{OLD}:\n  platform: linux x86_64\n", f"{OLD}:\n")
    path.write_text(f"{text}\n{IMPOSSIBLE}:\n  nonsense: 1\n", encoding="utf-8")
    with pytest.raises(TorchyardError, match=r"2 of 4 builds of the matrix") as told:
        lock.run(of(yard), check=check)
    assert told.value.message.endswith(f": {IMPOSSIBLE}, {OLD}")
    assert f"{OLD}.platform: this key is missing" in heard.text
    assert f"{IMPOSSIBLE}.python: this key is missing" in heard.text
    assert "matrix.exclude" not in heard.text
    assert not any(OLD in line and "machine cannot build it" in line for line in heard)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("axis", "why"),
    [('torch: ["2.6.0"], gpus: ["12.0"]', "12.0"), ('python: ["3.4"]', "found no Python 3.4")],
)
def test_lock_is_refused_if_no_entry_can_be_built(  # noqa: PLR0917
    yard: Path, built: set[str], heard: Heard, axis: str, why: str, check: bool
) -> None:
    write(yard, f"matrix: {{{axis}}}\ntorch: {{strategy: prebuilt}}\ntarget: {{gpus: []}}\n")
    what = "compared" if check else "locked"
    with pytest.raises(
        TorchyardError, match=f"nothing was {what}: this machine cannot build any entry"
    ):
        lock.run(of(yard), check=check)
    assert any("machine cannot build it" in line and why in line for line in heard)
    assert not locked(yard)


def test_hint_names_the_matrix_build(yard: Path, built: set[str], heard: Heard) -> None:
    lock.run(of(yard, OLD))
    built.remove(OLD)
    with pytest.raises(TorchyardError, match="3 of 4 builds"):
        lock.run(of(yard), check=True)
    assert f"add it: doit lock profile={NEW}" in heard.text
    assert f"doit build profile={OLD}, then the same command again" in heard.text
