"""doit build with install.into, as a person sees it: built, handed over, and given back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import source_profile
from tests.support import smallwheels
from tests.support.smallwheels import Theirs, theirs
from tests.support.yard import Yard

pytestmark = pytest.mark.integration


@pytest.fixture
def person(tmp_path: Path) -> Theirs:
    """Somebody with a torch of their own."""
    made = theirs(tmp_path / "person")
    made.install(smallwheels.torch(tmp_path / "old", "2.5.1"))
    return made


def test_a_build_is_put_into_an_environment_and_taken_out_again(
    yard: Yard, tree: Path, extension: Path, person: Theirs
) -> None:
    before = person.tree()
    profile = {**source_profile(tree, extension), "install": {"into": person.python}}
    yard.profile(**profile)
    out = yard.must("build")
    assert f"install into {person.python}" in out
    assert f"Installed into {person.python} in " in out
    version = yard.manifest("wheel")["version"]
    assert f"torch 2.5.1 → {version}" in out
    assert person.says("import torch; print(torch.__version__, torch.add(1, 1))") == (
        f"{version} 2.0"
    )
    assert person.says("import toyext; print(toyext.answer())") == "42"
    assert "Up to date" in yard.must("build")

    person.uninstall("toyext")
    assert "Built extensions:toy" not in (again := yard.must("build"))
    assert "Installed into" in again
    assert person.says("import toyext; print(toyext.answer())") == "42"

    assert "is kept: it holds the packages that were replaced in" in yard.must("purge")
    told = yard.must("restore")
    assert f"torch {version} → 2.5.1" in told
    assert "to restore these files, run: doit restore --yes profile=trial" in told
    done = yard.must("restore", "--yes")
    assert "every file is identical to the original" in done
    assert "install.into is still set" in done
    assert person.tree() == before
    yard.profile(**source_profile(tree, extension))
    assert "install: not part of this profile: install.into is not set" in yard.must("install")
    assert "Up to date" in yard.must("build")
    yard.must("purge", "--yes")
    assert not yard.build.exists()


@pytest.mark.long
def test_a_broken_profile_can_still_give_back(yard: Yard, tree: Path, person: Theirs) -> None:
    before = person.tree()
    yard.profile(**source_profile(tree), install={"into": person.python})
    yard.must("build")
    assert person.tree() != before
    yard.profile(**source_profile(tree), install={"into": "/nowhere/python"})
    code, out = yard.doit("build")
    assert code == 3
    assert "install.into: /nowhere/python does not exist" in out
    assert "install" in yard.must("list")
    assert "would remove" in yard.must("purge")
    assert yard.doit()[0] == yard.doit("explain")[0] == yard.doit("run", "-n", "2")[0] == 3
    yard.must("restore", "--yes")
    assert person.tree() == before
