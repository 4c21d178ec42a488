"""The network is cut, stalls or lies in the middle of a build: the plain command finishes, at once
or when it is given again, and what was there stays. Each kind of fault and of fetch is in
test_fetch_faults.py.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.server import ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from tasks.system import files
from tasks.wheels.package_index_io import add_wheel, render_index_pages
from tests.integration.conftest import commit, git, installed, source_profile
from tests.support.faultynet import Fault, wire
from tests.support.sharedlibrary import compile_library
from tests.support.smallwheels import torch
from tests.support.systems import linux_only
from tests.support.toytree import make_tree
from tests.support.webserver import Quiet, running
from tests.support.yard import ROOT, Yard, processes_with

pytestmark = [pytest.mark.integration, linux_only]

# what a client waits for at most, and how often it tries again
PATIENCE = {"PIP_DEFAULT_TIMEOUT": "60", "UV_HTTP_TIMEOUT": "60", "PIP_RETRIES": "1"}
BIG = 400_000  # bytes in the wheel: the pages of an index are far below


@pytest.fixture
def index(tmp_path: Path) -> Iterator[int]:
    """The port of a package index on loopback with two torches on it."""
    folder = files.create_owned_folder(tmp_path / "index")
    padding = f"padding = {os.urandom(BIG).hex()!r}"
    compiled = compile_library(tmp_path / "libtorch.so", "int torch_add(void) { return 1; }")
    library = compiled.read_bytes()
    releases = ("2.15.0", "2.15.1")
    made = [torch(tmp_path / "made", one, code=padding, library=library) for one in releases]
    entries = [add_wheel(folder, one) for one in made]
    for path, text in render_index_pages(ROOT / "templates" / "index", entries).items():
        files.write_atomic(folder / path, text)

    handler = partial(Quiet, directory=str(folder))
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield server.server_port


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


@pytest.mark.long
def test_a_build_makes_good_what_passes_and_keeps_what_was_there_where_it_lasts(
    index: int, tmp_path: Path
) -> None:
    yard = Yard(tmp_path / "yard")
    with wire(index) as line:
        url = f"http://127.0.0.1:{line.port}/simple"
        settings = {"strategy": "prebuilt", "index": url}
        env = {**PATIENCE, "PIP_INDEX_URL": url}
        for version in ("2.15.1", "2.15.0"):  # what the plan needs to know is read before
            yard.profile(target={"gpus": []}, torch={**settings, "version": version})
            code, said = yard.doit("explain", env=env)
            assert code == 0, said
        line.faults += [Fault("corrupt", BIG // 2), Fault("drop", BIG // 2)]
        code, said = yard.doit("wheel", env=env)
        assert (code, line.met) == (0, 2), said
        assert "fetch torch==2.15.0: the file has another sha256; trying again in" in said, said
        assert "the connection broke" in said, said
        (wheel,) = (yard.folder / "wheelhouse").glob("torch-*.whl")
        assert digest(wheel) == digest(tmp_path / "made" / wheel.name)

        yard.profile(target={"gpus": []}, torch={**settings, "version": "2.15.1"})
        line.faults += [Fault("drop", BIG // 2)] * 9
        code, said = yard.doit("wheel", env={**env, "PIP_RESUME_RETRIES": "0"})
        assert code == 1, said
        assert "Traceback" not in said
        assert f"{yard.build}/logs/wheel.log:" in said
        assert "run the same command again" in said
        assert installed(yard, "import torch; print(torch.__version__)") == "2.15.0"
        assert [path.name for path in (yard.folder / "wheelhouse").glob("torch-*.whl")] == [
            wheel.name
        ]
        assert not processes_with(str(yard.folder))

        line.faults.clear()
        code, said = yard.doit("wheel", env=env)
        assert code == 0, said
        assert installed(yard, "import torch; print(torch.__version__)") == "2.15.1"


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    tree = make_tree(tmp_path / "git" / "pytorch")
    (tree / "large").write_bytes(os.urandom(BIG))
    git(tree, "init", "-q", "-b", "main")
    commit(tree, "first")
    return tree


@pytest.fixture
def daemon(upstream: Path) -> Iterator[int]:
    """The port of git's own server, one for each who connects."""
    argv = ["git", "daemon", "--inetd", "--export-all", f"--base-path={upstream.parent}"]

    class Talk(BaseRequestHandler):
        def handle(self) -> None:
            line = self.request
            subprocess.run(argv, stdin=line, stdout=line, stderr=subprocess.DEVNULL, check=False)

    with running(ThreadingTCPServer(("127.0.0.1", 0), Talk)) as server:
        yield server.server_address[1]


@pytest.mark.long
def test_a_clone_that_is_cut_is_taken_up(upstream: Path, daemon: int, tmp_path: Path) -> None:
    yard = Yard(tmp_path / "yard")
    profile = source_profile(upstream)
    with wire(daemon, *[Fault("drop", 100)] * 9) as line:
        profile["source"] = {"git": f"git://127.0.0.1:{line.port}/pytorch", "ref": "main"}
        yard.profile(**profile)
        code, said = yard.doit("source")
        assert code == 1, said
        assert "trying again in" in said
        assert "(3 of 3)" in said
        assert "to continue the fetch" in said
        assert not (yard.build / "source.json").exists()

        line.faults[:] = [Fault("drop", BIG // 2)]
        code, said = yard.doit("source")
        assert code == 0, said
        assert "trying again in" in said
    assert yard.manifest("source")["commit"] == git(upstream, "rev-parse", "HEAD")
    (large,) = yard.build.rglob("src/*/large")
    assert large.read_bytes() == (upstream / "large").read_bytes()
    assert not processes_with(str(yard.folder))
