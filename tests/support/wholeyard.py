"""A yard whose small torch goes through all stages: cloned by git with a submodule, patched, built,
an extension with it, and both put into an environment where somebody works.

What a person wrote is in it: a file in the clone that git ignores and, where `edited`, a change of
one that it knows; a module of their own beside their torch, and one within it.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.integration.conftest import commit, git
from tests.support import smallwheels
from tests.support.smallsources import add_small_sources, set_value
from tests.support.smallwheels import Theirs, theirs
from tests.support.toyextension import make_extension
from tests.support.toytree import make_tree
from tests.support.yard import Yard, processes_with

_NOTES = "dist/notes"  # git ignores it, so that a clone without it is the same to a build
_EDIT, _MINE = "And my words, not committed.\n", "mine = 1\n"
_CHANGE = "replaced/*/change"  # an install that is not over
_PATCHED = (
    ("c10/text.cpp", ".size())", ".size() + 0)"),
    ("torch/cuda.py", "return 0\n", "return len(())\n"),
)


@dataclass(frozen=True)
class State:
    """What is asked for. All but `answer`, which is the extension's, is of torch."""

    ref: str = "v1"
    patched: bool = False
    switch: bool = False
    answer: int = 42

    @property
    def torch(self) -> State:
        """Without what makes no difference to torch."""
        return State(self.ref, self.patched, self.switch)


class Whole:
    """The yard, and everyone around it. Without `edited` the profile follows the ref, and with it
    its owner pulls by hand.
    """

    def __init__(self, folder: Path, *, edited: bool) -> None:
        self.folder, self.edited = folder, edited
        self.upstream = _upstream(folder / "upstream")
        self.yard = Yard(folder / "checkout")
        self.clone = self.yard.build / "src" / "pytorch"
        self.extension = make_extension(folder / "extension")
        self.person = _person(folder)
        self.before = self.person.tree()
        shutil.copy(folder / "upstream" / "mine.patch", self.yard.folder)

    def ask(self, state: State) -> None:
        """Write what is asked for, and pull where the clone is its owner's."""
        toy = {"name": "toy", "path": str(self.extension), "imports": ["toyext"]}
        make_extension(self.extension, str(state.answer))
        source: dict[str, Any] = {"git": str(self.upstream), "ref": state.ref}
        self.yard.profile(
            target={"gpus": []},
            torch={"strategy": "source", "version": "2.6.0"},
            source={**source, "patches": ["mine.patch"] if state.patched else []},
            # without it CMake leaves an installed library that is less than a second older
            build={"flags": {"USE_MANY": state.switch}, "env": {"CMAKE_INSTALL_ALWAYS": "1"}},
            extensions=[toy],
            install={"into": self.person.python},
            validation={"only": ["import", "version", "device"]},
        )

    def pull(self, state: State) -> None:
        """Bring the clone to another ref as a person does, who does not think of submodules."""
        git(self.clone, "fetch", "-q", "origin", f"+refs/tags/{state.ref}:refs/tags/{state.ref}")
        git(self.clone, "checkout", "-q", "--detach", state.ref)

    def write(self) -> None:
        """What a person wrote into the clone."""
        (self.clone / _NOTES).parent.mkdir(exist_ok=True)
        (self.clone / _NOTES).write_text(_MINE, "utf-8")
        readme = self.clone / "README.md"
        if self.edited and _EDIT not in readme.read_text("utf-8"):
            readme.write_text(readme.read_text("utf-8") + _EDIT, "utf-8")

    def require_theirs(self) -> None:
        """All that is a person's is as it was."""
        assert (self.clone / _NOTES).read_text("utf-8") == _MINE
        if self.edited:
            assert (self.clone / "README.md").read_text("utf-8").endswith(_EDIT)
        for name in ("mine.py", "torch/mine.py"):
            assert (self.person.site / name).read_text("utf-8") == _MINE

    def require_quiet(self) -> None:
        """Nobody is at work, and no lock is held."""
        assert processes_with(str(self.folder)) == []
        places = (*self.folder.rglob(".lock.pid"), *(self.clone / ".git").rglob("*.lock"))
        assert [*places] == []
        parts = [*self.person.folder.rglob(".torchyard-part"), *self.yard.build.glob(_CHANGE)]
        assert parts == []

    def torch(self) -> dict[str, str]:
        """What came out for torch, by names that tell where."""
        name = self.yard.manifest("wheel")["artifact"]["name"]
        installed = Path(self.yard.manifest("wheel")["folder"])
        return {
            "wheel": name,
            **_members(self.yard.folder / "wheelhouse" / name),
            **_tree("installed", installed),
            **_tree("theirs", self.person.site / "torch"),
            **self._texts(),
            **self._source(),
        }

    def _texts(self) -> dict[str, str]:
        names = ("env.sh", "env.ps1", "run", "env.json", "compile.json", "source.json")
        return {name: (self.yard.build / name).read_text("utf-8") for name in names}

    def _source(self) -> dict[str, str]:
        submodule = self.clone / "third_party" / "inner"
        return {
            "status": git(self.clone, "status", "--porcelain"),
            "diff": git(self.clone, "diff"),
            "head": git(self.clone, "rev-parse", "HEAD"),
            "submodule": git(submodule, "rev-parse", "HEAD"),
            "within": git(submodule, "status", "--porcelain"),
        }

    def toy(self) -> dict[str, str]:
        """What came out for the extension."""
        (folder,) = {Path(path).parent for path in self.manifest_of_toy()["libraries"]}
        return {**_tree("installed", folder), **_tree("theirs", self.person.site / "toyext")}

    def manifest_of_toy(self) -> Any:
        """Of the extension."""
        return json.loads((self.yard.build / "extensions" / "toy.json").read_text("utf-8"))


def _upstream(folder: Path) -> Path:
    """A bare repository with the tags v1 and v2, a submodule beside it, and a patch to it."""
    inner, tree = folder / "inner", make_tree(folder / "tree")
    inner.mkdir()
    for repository in (inner, tree):
        git(repository, "init", "-q", "-b", "main")
    _set_inner(inner, 1)
    add_small_sources(tree, 6)
    git(tree, "-c", "protocol.file.allow=always", *_ADD, str(inner), "third_party/inner")
    git(tree, "config", "-f", ".gitmodules", "submodule.third_party/inner.url", "../inner")
    for number in (1, 2):
        commit_inner = _set_inner(inner, number)
        git(tree / "third_party" / "inner", "fetch", "-q", "origin")
        git(tree / "third_party" / "inner", "checkout", "-q", commit_inner)
        set_value(tree, number)
        with (tree / "many" / "value.h").open("a", encoding="utf-8") as header:
            header.write('#include "../third_party/inner/inner.h"\n')
        commit(tree, f"the {number}. value")
        git(tree, "tag", f"v{number}")
    _patch(tree, folder / "mine.patch")
    git(folder, "clone", "-q", "--bare", str(tree), "pytorch.git")
    return folder / "pytorch.git"


_ADD = ("submodule", "--quiet", "add")


def _set_inner(inner: Path, number: int) -> str:
    (inner / "inner.h").write_text(f"#define INNER {number}\n", "utf-8")
    (inner / "number").write_text(f"{number}\n" * 1000, "utf-8")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "--allow-empty", "-m", f"the {number}. of it")
    return git(inner, "rev-parse", "HEAD")


def _patch(tree: Path, patch: Path) -> None:
    for name, old, new in _PATCHED:
        path = tree / name
        path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    (tree / "torch" / "patched.py").write_text("patched = 1\n", "utf-8")
    git(tree, "add", "-A")
    patch.write_text(git(tree, "diff", "--cached") + "\n", "utf-8")
    git(tree, "reset", "-q", "--hard")


def _person(folder: Path) -> Theirs:
    made = theirs(folder / "person")
    made.install(smallwheels.torch(folder / "old", "2.5.1"))
    for name in ("mine.py", "torch/mine.py"):
        (made.site / name).write_text(_MINE, "utf-8")
    return made


def _members(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {f"wheel/{name}": _digest(archive.read(name)) for name in archive.namelist()}


def _tree(name: str, folder: Path) -> dict[str, str]:
    return {
        f"{name}/{path.relative_to(folder).as_posix()}": _digest(path.read_bytes())
        for path in _files(folder)
    }


def _files(folder: Path) -> Iterator[Path]:
    """All but bytecode, which has times in it."""
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
