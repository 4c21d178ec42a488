"""torchyard.lock on a build of toys: what it holds is what is built again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.effects import files
from tests import smallwheels
from tests.integration.conftest import commit, git, installed
from tests.sharedlibrary import compile_library
from tests.toyextension import make_extension
from tests.yard import NAME, Yard

pytestmark = pytest.mark.integration

EXTENSION = "https://git.example/toy.git"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """A prebuilt torch with a package that it asks for, and an extension with a submodule."""
    folder = tmp_path_factory.mktemp("lock")
    upstream = make_extension(folder / "git" / "toy.git")
    inner = folder / "git" / "inner"
    inner.mkdir()
    for repository, text in ((inner, "inner\n"), (upstream, "outer\n")):
        git(repository, "init", "-q", "-b", "main")
        (repository / "text").write_text(text, encoding="utf-8")
        commit(repository, "first")
    allowed = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add")
    git(upstream, *allowed, str(inner), "inner")
    git(upstream, "config", "-f", ".gitmodules", "submodule.inner.url", "../inner")
    commit(upstream, "with a submodule")
    index = folder / "index"
    library = compile_library(folder / "libtorch.so", "int torch_add(void) { return 1; }")
    smallwheels.torch(index, "2.6.0", requires=["needed>=1"], library=library.read_bytes())
    smallwheels.wheel(index, "needed", "1.0", {"needed.py": "x = 1\n"})
    yard = Yard(folder / "checkout")
    yard.profile(**profile(folder))
    yard.must("build")
    return yard


def profile(folder: Path) -> dict[str, Any]:
    toy = {"name": "toy", "git": EXTENSION, "ref": "main", "imports": ["toyext"]}
    return {
        "target": {"gpus": []},
        "torch": {
            "strategy": "prebuilt",
            "version": "2.6.0",
            "index": str(folder / "index"),
        },
        "source": {"mirrors": {"https://git.example/": f"{folder / 'git'}/"}},
        "extensions": [{**toy, "env": {"CFLAGS": "-g0"}}],
    }


def locked(yard: Yard) -> Any:
    """The section of this profile."""
    return yaml.safe_load((yard.folder / "torchyard.lock").read_text(encoding="utf-8"))[NAME]


def test_a_lock_holds_commits_and_files_and_changes_nothing(built: Yard, tmp_path: Path) -> None:
    code, _ = Yard(tmp_path / "other").doit("lock", "--check")
    assert code == 3, "there is no such profile there"
    assert "torchyard.lock: trial: 2 commits, 1 file, " in built.must("lock")
    section = locked(built)
    toy, torch = section["extensions"]["toy"], section["torch"]
    folder = built.folder.parent
    assert toy["commit"] == git(folder / "git" / "toy.git", "rev-parse", "HEAD")
    assert toy["submodules"] == {"inner": git(folder / "git" / "inner", "rev-parse", "HEAD")}
    wheel = built.folder / "wheelhouse" / torch["wheel"]
    assert torch["sha256"] == files.artifact(wheel).sha256
    needed = folder / "index" / "needed-1.0-py3-none-any.whl"
    assert torch["packages"] == {"needed==1.0": [files.artifact(needed).sha256]}
    tools = {pin.partition("==")[0] for pin in section["packages"]}
    assert {"cmake", "ninja", "numpy", "pip", "setuptools", "wheel"} <= tools
    assert all(len(digests) == 1 for digests in section["packages"].values())
    assert "Up to date" in built.must("build")
    assert "trial is what was built" in built.must("lock", "--check")


def test_another_checkout_builds_what_is_locked_whatever_moved_since(
    built: Yard, tmp_path: Path
) -> None:
    built.must("lock")
    folder = built.folder.parent
    upstream, index = folder / "git" / "toy.git", folder / "index"
    before = built.manifest("extensions:toy")["source"]
    make_extension(upstream, "43")
    moved = commit(upstream, "moved on")
    smallwheels.wheel(index, "needed", "2.0", {"needed.py": "x = 2\n"})
    other = Yard(tmp_path / "checkout")
    other.profile(**profile(folder))
    shutil.copy(built.folder / "torchyard.lock", other.folder)
    out = other.must("build")
    assert f"torchyard.lock holds main at {before['commit'][:7]}; newer: doit lock --update" in out
    assert "WARNING" not in out
    assert other.manifest("extensions:toy")["source"] == before
    assert installed(other, "import needed, toyext; print(needed.x, toyext.answer())") == "1 42"
    assert "trial is what was built" in other.must("lock", "--check")

    other.must("lock", "--update")
    assert f"main is locked at {moved[:7]}" in other.must("explain")
    out = other.must("build")
    assert f"Building extensions:toy (main is locked at {moved[:7]}, and" in out
    assert "Preparing" not in out
    assert "Installing wheel" not in out
    assert installed(other, "import toyext; print(toyext.answer())") == "43"
    code, out = other.doit("lock", "--check")
    assert code == 1
    assert "extensions.toy.submodules.inner: built, and not locked" in out
    other.must("lock")
    text = (other.folder / "torchyard.lock").read_text(encoding="utf-8")
    (other.folder / "torchyard.lock").write_text(text.replace("release: 2.6.0", "release: 2.5.0"))
    out = other.must("build")
    assert "torch prebuilt 2.5.0 is locked, and prebuilt 2.6.0 is asked for: resolved anew" in out
    assert "Up to date" in out
