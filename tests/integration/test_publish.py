"""`doit publish`: an index that pip and uv install from behind a plain web server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.core.model import Artifact
from tasks.stages.wheel.model import Wheel
from tasks.system import environments, files, manifests
from tests.support.rows import long_but
from tests.support.smallwheels import Theirs, theirs, torch, wheel
from tests.support.webserver import served
from tests.support.yard import Yard

pytestmark = pytest.mark.integration

LABEL = "torch2.15.0.s1a2b3c4d.cu132.sm120"


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    """A profile that has built a torch and an extension, as far as publishing can see."""
    made = Yard(tmp_path / "yard")
    (tmp_path / "knn").mkdir()
    (tmp_path / "knn" / "setup.py").touch()
    made.profile(
        target={"gpus": []},
        torch={"strategy": "prebuilt"},
        extensions=[{"name": "simple-knn", "path": str(tmp_path / "knn")}],
    )
    wheelhouse = made.folder / "wheelhouse"
    base = torch(wheelhouse, "2.15.0", requires=["filelock"])
    knn = wheel(wheelhouse, "simple_knn", f"1.0+{LABEL}", {"simple_knn.py": "ours = 1\n"})
    files.create_owned_folder(made.build)
    version, folder = "2.15.0", str(tmp_path / "torch")
    torch_json = Wheel(version, version, None, folder, "", "wheel", files.read_artifact(base))
    manifests.write_manifest(made.build / "wheel.json", torch_json)
    _extension(made, files.read_artifact(knn))
    return made


def _extension(yard: Yard, artifact: Artifact) -> None:
    from tasks.stages.extensions.model import BuiltExtension  # noqa: PLC0415

    place = yard.build / "extensions" / "simple-knn.json"
    manifests.write_manifest(place, BuiltExtension("simple-knn", "built", {}, artifact))


def env() -> dict[str, str]:
    """Without the settings that would lead a client to another index."""
    mine = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_", "PYTHON"))}
    return {**mine, "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", "NO_PROXY": "127.0.0.1"}


def install(python: str, client: str, *argv: str) -> subprocess.CompletedProcess[str]:
    uv = [environments.find_uv() or "uv", "pip", "install", "--no-cache", "--python", python]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-cache-dir"]
    words = [*(uv if client == "uv" else pip), "--no-deps", *argv]
    return subprocess.run(words, capture_output=True, text=True, env=env(), check=False)


@pytest.mark.parametrize("client", ["pip", "uv"])
def test_pip_and_uv_install_from_it(yard: Yard, tmp_path: Path, client: str) -> None:
    out = yard.must("publish", "--dest", "index")
    assert "has 2 wheels" in out
    yard.must("publish", "--dest", "index", "--check")
    mine = theirs(tmp_path / client)
    with served(yard.folder / "index") as url:
        done = install(mine.python, client, "--index-url", f"{url}/simple", "simple-knn", "torch")
    assert done.returncode == 0, done.stderr
    assert mine.says("import simple_knn; print(simple_knn.ours)") == "1"
    assert version(mine, "torch") == "2.15.0"


def version(environment: Theirs, name: str) -> str:
    return environment.says(f"import importlib.metadata as m; print(m.version({name!r}))")


@pytest.mark.parametrize("client", long_but(["pip"], ["pip", "uv"]))
def test_a_digest_that_is_not_that_of_the_page_is_refused(
    yard: Yard, tmp_path: Path, client: str
) -> None:
    yard.must("publish", "--dest", "index")
    (lies,) = (yard.folder / "index" / "files").glob("simple_knn*.whl")
    lies.unlink()
    wheel(lies.parent, "simple_knn", f"1.0+{LABEL}", {"simple_knn.py": "theirs = 1\n"})
    with served(yard.folder / "index") as url:
        done = install(
            theirs(tmp_path / client).python, client, "--index-url", f"{url}/simple", "simple-knn"
        )
    assert done.returncode != 0
    assert "hash" in done.stderr.lower()
    code, out = yard.doit("publish", "--dest", "index", "--check")
    assert code == 1
    assert "does not match the sha256 on its page" in out


@pytest.mark.long
@pytest.mark.parametrize("client", long_but(["uv"], ["pip", "uv"]))
def test_what_is_yanked_is_taken_by_who_asks_for_it_alone(
    yard: Yard, tmp_path: Path, client: str
) -> None:
    yard.must("publish", "--dest", "index")
    name = f"simple_knn-1.0+{LABEL}-py3-none-any.whl"
    yard.must("publish", "--dest", "index", "--yank", name, "--because", "wrong archs")
    mine = theirs(tmp_path / client)
    with served(yard.folder / "index") as url:
        plain = install(mine.python, client, "--index-url", f"{url}/simple", "simple-knn>=1.0")
        exact = install(
            mine.python, client, "--index-url", f"{url}/simple", f"simple-knn==1.0+{LABEL}"
        )
    assert exact.returncode == 0, exact.stderr
    assert "wrong archs" in exact.stdout + exact.stderr
    if client == "uv":  # pip takes a yanked one where there is no other, with a warning
        assert plain.returncode != 0


@pytest.mark.long
def test_what_was_yanked_is_named_and_taken_back(yard: Yard) -> None:
    yard.must("publish", "--dest", "index")
    name = f"simple_knn-1.0+{LABEL}-py3-none-any.whl"
    yard.must("publish", "--dest", "index", "--yank", name, "--because", "wrong archs")
    told = f"{name}, yanked: wrong archs; undo: doit publish --unyank {name}"
    assert told in yard.must("publish", "--dest", "index", "--check")
    assert f"already published: {told}" in yard.must("publish", "--dest", "index")
    assert "no longer yanked" in yard.must("publish", "--dest", "index", "--unyank", name)
    assert "yanked" not in yard.must("publish", "--dest", "index", "--check")


@pytest.mark.long
def test_published_again_nothing_moves(yard: Yard) -> None:
    yard.must("publish", "--dest", "index")
    before = {path: path.read_bytes() for path in (yard.folder / "index").rglob("*.*")}
    out = yard.must("publish", "--dest", "index")
    assert "already published: simple_knn" in out
    after = {path: path.read_bytes() for path in (yard.folder / "index").rglob("*.*")}
    assert before == after


def test_a_folder_of_a_person_is_not_made_an_index(yard: Yard) -> None:
    (yard.folder / "index").mkdir()
    (yard.folder / "index" / "theirs.txt").write_text("1")
    code, out = yard.doit("publish", "--dest", "index")
    assert code == 1
    assert "torchyard did not create it" in out
    assert [path.name for path in (yard.folder / "index").iterdir()] == ["theirs.txt"]


def test_without_a_place_or_a_wheel_it_says_what_to_do(yard: Yard) -> None:
    code, out = yard.doit("publish")
    assert (code, "doit publish --dest DEST" in out) == (1, True)
    shutil.rmtree(yard.folder / "wheelhouse")
    code, out = yard.doit("publish", "--dest", "index")
    assert code == 1
    assert "this wheel changed after the build" in out


@pytest.mark.needs("rsync")
def test_another_machine_gets_a_copy_by_rsync(yard: Yard, tmp_path: Path) -> None:
    """ssh is stood in for: it runs here what it is to run there."""
    there = tmp_path / "there"
    there.mkdir()
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nwhile [ "$1" != rsync ]; do shift; done\nexec "$@"\n')
    ssh.chmod(0o755)
    (there / "files").mkdir()
    (there / "files" / "old-1-py3-none-any.whl").write_bytes(b"old")
    (there / "note.txt").write_text("theirs")
    code, out = yard.doit("publish", "--dest", f"me@there:{there}", env={"RSYNC_RSH": str(ssh)})
    assert code == 0, out
    assert (there / "note.txt").read_text() == "theirs"
    assert sorted(path.suffix for path in (there / "files").iterdir()) == [
        *(".metadata", ".metadata", ".whl", ".whl")
    ]
    listed = json.loads((there / "simple" / "index.json").read_text())
    assert [one["name"] for one in listed["projects"]] == ["simple-knn", "torch"]


@pytest.mark.long
def test_a_command_of_a_person_gets_the_folder(yard: Yard, tmp_path: Path) -> None:
    there = tmp_path / "bucket"
    yard.must("publish", "--dest", f"cp -r {{index}} {there}")
    assert (there / "simple" / "index.html").is_file()
    code, out = yard.doit("publish", "--dest", "false {index}")
    assert code == 1
    assert "upload the index" in out
