"""`doit lock` of a profile with a matrix: a section for each build, and each by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.errors import BuildError
from tasks.locking.section import Made, Profile
from tasks.locking.text import read, sections
from tasks.opening import open_profile
from tasks.reports import lock
from tasks.reports.subject import Profile as Opened
from tasks.reports.subject import Subject
from tests.checkout import Heard, write

MATRIX = """\
matrix:
  torch: ["2.15.0", "2.6.0"]
  gpus: ["12.0", []]
torch: {strategy: prebuilt}
"""
NEW, OLD = "mine@torch2.15.0-cpu", "mine@torch2.6.0-cpu"
CUDA = "mine@torch2.15.0-sm120"
IMPOSSIBLE = "mine@torch2.6.0-sm120"  # that torch has no code for the card


@pytest.fixture
def built(yard: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The profiles that are built, and what each is built of."""
    write(yard, MATRIX)
    names = {NEW, OLD, CUDA}

    class Finished:
        def __init__(self, profile: Opened) -> None:
            self.name = profile.layout.profile
            self.release = profile.choice.torch.partition("+")[0]

        def section(self) -> Profile:
            if self.name not in names:
                raise BuildError("what is to be locked is not built")
            made = Made(wheel=f"torch-{self.release}-py3-none-any.whl", sha256="1" * 64)
            return Profile(
                python="3.12",
                platform="linux x86_64",
                strategy="prebuilt",
                release=self.release,
                torch=made,
            )

    monkeypatch.setattr(lock, "Finished", Finished)
    return names


def locked(yard: Path) -> str:
    path = yard / "torchyard.lock"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def of(yard: Path, name: str = "mine") -> Subject:
    return Subject(yard, name, open_profile(yard, name, {}))


def test_every_build_of_a_matrix_has_a_section(yard: Path, built: set[str], heard: Heard) -> None:
    lock.run(of(yard))
    assert set(sections(locked(yard))) == built, "the profile itself is not built"
    held = read(locked(yard), OLD)
    assert held is not None
    assert held.release == "2.6.0"
    assert any(IMPOSSIBLE in line and "cannot be built here" in line for line in heard)
    lock.run(of(yard), check=True)


def test_one_build_is_locked_by_its_name_and_leaves_the_others(yard: Path, built: set[str]) -> None:
    lock.run(of(yard, NEW))
    assert set(sections(locked(yard))) == {NEW}
    lock.run(of(yard, NEW), check=True)
    with pytest.raises(BuildError, match=f"no section {OLD}"):
        lock.run(of(yard, OLD), check=True)


def test_a_build_that_is_not_finished_costs_no_other(
    yard: Path, built: set[str], heard: Heard
) -> None:
    built.remove(NEW)
    with pytest.raises(BuildError, match=f"1 of 4 builds of the matrix are not locked: {NEW}"):
        lock.run(of(yard))
    assert set(sections(locked(yard))) == {OLD, CUDA}
    assert any(NEW in line and "is not built" in line for line in heard)


def test_a_difference_in_one_build_is_named_with_it(
    yard: Path, built: set[str], heard: Heard
) -> None:
    lock.run(of(yard))
    path = yard / "torchyard.lock"
    before = sections(locked(yard))[OLD][1]
    after = before.replace("1" * 64, "2" * 64)
    path.write_text(locked(yard).replace(before, after), encoding="utf-8")
    with pytest.raises(BuildError, match=f"not what is locked: {OLD}\n"):
        lock.run(of(yard), check=True)
    assert any("torch.sha256: 222222222222 → 111111111111" in line for line in heard)
    lock.run(of(yard))
    assert sections(locked(yard))[OLD][1] == before


def test_the_profile_itself_is_locked_beside_them_where_it_is_built(
    yard: Path, built: set[str]
) -> None:
    built.add("mine")
    subject = of(yard)
    subject.build.mkdir(parents=True, exist_ok=True)
    (subject.build / "deps.json").touch()
    lock.run(subject)
    assert "mine" in sections(locked(yard))
