"""torchyard.lock on a build of toys: what it holds is what is built again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.system import files
from tests.integration.conftest import commit, git, installed
from tests.support import smallwheels
from tests.support.sharedlibrary import compile_library
from tests.support.systems import linux_only
from tests.support.toyextension import make_extension
from tests.support.toytree import make_tree
from tests.support.webserver import served
from tests.support.yard import NAME, Yard

pytestmark = [pytest.mark.integration, linux_only]

EXTENSION = "https://git.example/toy.git"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
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
    smallwheels.torch(
        index / "torch", "2.6.0", requires=["needed>=1"], library=library.read_bytes()
    )
    smallwheels.wheel(index / "needed", "needed", "1.0", {"needed.py": "x = 1\n"})
    yard = Yard(folder / "checkout")
    with served(index) as url:  # its lists of folders are a package index
        (index / "url").write_text(f"{url}/", encoding="utf-8")
        yard.profile(**profile(folder))
        yard.must("build")
        assert "torchyard.lock: trial: 2 commits, 1 file, " in yard.must("lock")
        yield yard


def profile(folder: Path) -> dict[str, Any]:
    toy = {"name": "toy", "git": EXTENSION, "ref": "main", "imports": ["toyext"]}
    return {
        "target": {"gpus": []},
        "torch": {
            "strategy": "prebuilt",
            "version": "2.6.0",
            "index": (folder / "index" / "url").read_text(encoding="utf-8"),
        },
        "source": {"mirrors": {"https://git.example/": f"{folder / 'git'}/"}},
        "extensions": [{**toy, "env": {"CFLAGS": "-g0"}}],
    }


def locked(yard: Yard) -> Any:
    """The section of this profile."""
    return yaml.safe_load((yard.folder / "torchyard.lock").read_text(encoding="utf-8"))[NAME]


@pytest.mark.long
def test_a_lock_holds_commits_and_files_and_changes_nothing(built: Yard) -> None:
    section = locked(built)
    toy, torch = section["extensions"]["toy"], section["torch"]
    folder = built.folder.parent
    assert toy["commit"] == git(folder / "git" / "toy.git", "rev-parse", "HEAD")
    assert toy["submodules"] == {"inner": git(folder / "git" / "inner", "rev-parse", "HEAD")}
    wheel = built.folder / "wheelhouse" / torch["wheel"]
    assert torch["sha256"] == files.read_artifact(wheel).sha256
    needed = folder / "index" / "needed" / "needed-1.0-py3-none-any.whl"
    assert torch["packages"] == {"needed==1.0": [files.read_artifact(needed).sha256]}
    tools = {pin.partition("==")[0] for pin in section["packages"]}
    assert {"cmake", "ninja", "numpy", "pip", "setuptools", "wheel"} <= tools
    assert all(len(digests) == 1 for digests in section["packages"].values())
    assert "Up to date" in built.must("build")
    assert "trial matches the build" in built.must("lock", "--check")


def unconnected() -> tuple[str, ...]:
    """A program in whose namespace there is no network, not even this machine's own."""
    for words in (("unshare", "-n"), ("unshare", "-rn")):
        if shutil.which("unshare") and not subprocess.run([*words, "true"], check=False).returncode:
            return words
    pytest.skip("not run: no right to make a network namespace")


def outcome(yard: Yard) -> Any:
    """The manifests without places, what is made anew each time, and a wheel's times."""
    texts = {}
    for name in ("deps", "wheel", "surface", "extensions:toy"):
        told = yard.manifest(name)
        told.pop("identity", None)
        if name != "wheel":
            told.pop("artifact", None)
        texts[name] = json.dumps(told, sort_keys=True).replace(str(yard.folder), "")
    return texts


def files_of(yard: Yard) -> dict[str, str]:
    """What was installed, by digest, but for what names places and times."""
    (site,) = (yard.build / "venv" / "lib").glob("python*/site-packages")
    volatile = ("RECORD", "direct_url.json", "uv_cache.json", "REQUESTED")
    return {
        str(path.relative_to(site)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in site.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and path.name not in volatile
    }


@pytest.mark.long
def test_a_bundle_builds_the_same_where_there_is_no_network(built: Yard, tmp_path: Path) -> None:
    through = unconnected()
    archive = tmp_path / "all of it.tar"
    out = built.must("bundle", "--dest", str(archive))
    assert "copy the bundle, torchyard.lock and config/ to the" in " ".join(out.split())
    assert "2 repositories" in out
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]
    far = Yard(tmp_path / "checkout")
    far.through = through
    asked = {**profile(built.folder.parent), "offline": str(archive)}
    far.profile(**{**asked, "source": {}})
    caches = {"UV_CACHE_DIR": str(tmp_path / "uv"), "PIP_CACHE_DIR": str(tmp_path / "pip")}
    code, out = far.doit("build", env=caches)
    assert code == 0, out
    assert outcome(far) == outcome(built)
    assert files_of(far) == files_of(built)
    assert "offline: everything" in far.doit("doctor", "--verbose", env=caches)[1]
    far.must("lock")
    read = locked(built).pop("facts")  # the other machine did not ask the index
    assert read == ["torch 2.6.0: read from the wheel torch-2.6.0-py3-none-any.whl"]
    assert locked(far) == {name: part for name, part in locked(built).items() if name != "facts"}


def test_wheels_of_a_bundle_are_installed_where_there_is_neither_network_nor_torchyard(
    built: Yard, tmp_path: Path
) -> None:
    """docs/publish.md, without an index."""
    built.must("bundle", "--dest", str(tmp_path / "bundle"))
    folders = (tmp_path / "bundle" / "wheels", built.folder / "wheelhouse")
    found = [f"--find-links={folder}" for folder in folders]
    mine = smallwheels.theirs(tmp_path / "mine")
    pip = [*unconnected(), sys.executable, "-m", "pip", "--isolated", "--python", mine.python]
    env = {**os.environ, "PIP_CONFIG_FILE": os.devnull}
    argv = [*pip, "install", "--no-cache-dir", "--no-index", *found, "torch==2.6.0", "toyext"]
    subprocess.run(argv, check=True, env=env)
    assert mine.says("import needed, toyext; print(needed.x)") == "1"


@pytest.mark.long
def test_a_tree_with_submodules_and_all_that_extensions_ask_for_come_from_a_bundle(
    tmp_path: Path,
) -> None:
    through = unconnected()
    tree, inner = make_tree(tmp_path / "git" / "pytorch"), tmp_path / "git" / "inner"
    inner.mkdir()
    (inner / "text").write_text("inner", encoding="utf-8")
    for folder in (inner, tree):
        git(folder, "init", "-q", "-b", "main")
        commit(folder, "first")
    git(tree, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner))
    git(tree, "config", "-f", ".gitmodules", "submodule.inner.url", "../inner")
    commit(tree, "with a submodule")
    git(tree, "tag", "-a", "-m", "a tag", "v2.6.0")
    extension = make_extension(tmp_path / "toy")
    setup = (extension / "setup.py").read_text(encoding="utf-8")
    setup = setup.replace("setup(name", 'setup(install_requires=["pluggy"], name')
    (extension / "setup.py").write_text(f"import iniconfig\n{setup}", encoding="utf-8")
    toy = {"name": "toy", "path": str(extension), "imports": ["toyext"], "requires": ["iniconfig"]}
    settings: dict[str, Any] = {
        "target": {"gpus": []},
        "torch": {"strategy": "source", "version": "2.6.0"},
        "source": {"git": "https://git.example/pytorch"},
        "extensions": [toy, {"name": "packed", "sdist": "simplejson==3.19.3"}],
    }
    near, far = Yard(tmp_path / "near"), Yard(tmp_path / "far")
    mirrors = {"https://git.example/": f"{tmp_path / 'git'}/"}
    near.profile(**{**settings, "source": {**settings["source"], "mirrors": mirrors}})
    for command in (["build"], ["lock"], ["bundle", "--dest", str(tmp_path / "bundle")]):
        near.must(*command)
    toy_locked = locked(near)["extensions"]["toy"]
    assert [pin.partition("==")[0] for pin in toy_locked["requires"]] == ["iniconfig"]
    assert [pin.partition("==")[0] for pin in toy_locked["packages"]] == ["pluggy"]
    far.through = through
    far.profile(**settings, offline=str(tmp_path / "bundle"))
    shutil.copy(near.folder / "torchyard.lock", far.folder)
    (tmp_path / "git").rename(tmp_path / "gone")
    caches = {"UV_CACHE_DIR": str(tmp_path / "uv"), "PIP_CACHE_DIR": str(tmp_path / "pip")}
    code, out = far.doit("build", env=caches)
    assert code == 0, out
    read = near.manifest("source")
    assert read["submodules"]["inner"] == locked(near)["torch"]["submodules"]["inner"]
    assert {**far.manifest("source"), "tree": ""} == {**read, "tree": ""}
    assert "trial matches the build" in far.must("lock", "--check")


def test_another_checkout_builds_what_is_locked_whatever_moved_since(
    built: Yard, tmp_path: Path
) -> None:
    folder = built.folder.parent
    upstream, index = folder / "git" / "toy.git", folder / "index"
    before = built.manifest("extensions:toy")["source"]
    make_extension(upstream, "43")
    moved = commit(upstream, "moved on")
    smallwheels.wheel(index / "needed", "needed", "2.0", {"needed.py": "x = 2\n"})
    other = Yard(tmp_path / "checkout")
    other.profile(**profile(folder))
    shutil.copy(built.folder / "torchyard.lock", other.folder)
    out = other.must("build")
    assert f"main has a newer commit than torchyard.lock ({before['commit'][:7]})" in out
    assert "WARNING" not in out
    assert other.manifest("extensions:toy")["source"] == before
    assert installed(other, "import needed, toyext; print(needed.x, toyext.answer())") == "1 42"
    assert "trial matches the build" in other.must("lock", "--check")

    other.must("lock", "--update")
    assert f"main is locked at {moved[:7]}" in other.must("explain")
    out = other.must("build")
    assert f"Building extensions:toy (main is locked at {moved[:7]}, but" in out
    assert "Preparing" not in out
    assert "Installing wheel" not in out
    assert installed(other, "import toyext; print(toyext.answer())") == "43"
    code, out = other.doit("lock", "--check")
    assert code == 1
    assert "extensions.toy.submodules.inner: built, but not locked" in out
    other.must("lock")
    text = (other.folder / "torchyard.lock").read_text(encoding="utf-8")
    (other.folder / "torchyard.lock").write_text(text.replace("release: 2.6.0", "release: 2.5.0"))
    out = other.must("build")
    assert "torch prebuilt 2.5.0 is locked, but prebuilt 2.6.0 is required: resolved again" in out
    assert "Up to date" in out


@pytest.mark.long
def test_an_optional_extension_that_was_away_is_in_neither_lock_nor_bundle(
    built: Yard, tmp_path: Path
) -> None:
    through, place = unconnected(), tmp_path / "bundle"
    away = {"name": "away", "git": "https://git.example/away.git", "optional": True}
    asked = {**profile(built.folder.parent), "extensions": [away]}
    near, far = Yard(tmp_path / "near"), Yard(tmp_path / "far")
    near.profile(**asked)
    assert "away was not built: https://git.example/away.git does not answer" in near.must("build")
    out = near.must("lock")
    assert "away is optional and was not built (its source could not be reached)" in out
    assert "it is not in torchyard.lock; a build fetches it as the settings say" in out
    assert "extensions" not in locked(near)
    assert "torchyard.lock: away is not locked: resolved again" in near.must("build")
    (near.build / "extensions" / "away.json").unlink()
    assert "away is optional and was not built (its stage did not" in near.must("lock", "--check")
    out = near.must("bundle", "--dest", str(place))
    assert "the bundle lacks this extension, which cannot be built offline" in out
    assert "0 repositories" in out

    far.through = through
    far.profile(**{**asked, "source": {}, "offline": str(place)})
    shutil.copy(near.folder / "torchyard.lock", far.folder)
    out = far.must("build")
    assert "away was not built: https://git.example/away.git is not in the bundle" in out
    assert far.manifest("wheel")["artifact"] == near.manifest("wheel")["artifact"]
