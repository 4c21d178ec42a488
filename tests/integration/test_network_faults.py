"""The network is cut, stalls or lies in the middle of a fetch: the plain command finishes, at once
or when it is given again, and nothing half fetched is taken for whole.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tasks.effects import files
from tasks.effects.published.rendered import rendered
from tasks.effects.published.shelf import add
from tests.faultynet import Fault, wire
from tests.integration.conftest import commit, git, source_profile
from tests.sharedlibrary import compile_library
from tests.smallwheels import torch
from tests.systems import linux_only
from tests.toytree import make_tree
from tests.yard import ROOT, Yard, processes_with

pytestmark = [pytest.mark.integration, linux_only]

# what a client waits for at most, and how often it tries again
PATIENCE = {"PIP_DEFAULT_TIMEOUT": "2", "UV_HTTP_TIMEOUT": "2", "PIP_RETRIES": "1"}
BIG = 400_000  # bytes in the wheel: the pages of an index are far below


@pytest.fixture
def index(tmp_path: Path) -> Iterator[int]:
    """The port of a package index on loopback with one torch on it."""
    folder = files.own(tmp_path / "index")
    padding = f"padding = {os.urandom(BIG).hex()!r}"
    library = compile_library(tmp_path / "libtorch.so", "int torch_add(void) { return 1; }")
    made = torch(tmp_path / "made", "2.15.0", code=padding, library=library.read_bytes())
    entry = add(folder, made)
    for path, text in rendered(ROOT / "templates" / "index", [entry]).items():
        files.write_atomic(folder / path, text)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def finished(yard: Yard, env: dict[str, str]) -> str:
    """What the plain command says, given again while it fails; at most three times."""
    said = ""
    for _ in range(3):
        code, out = yard.doit("wheel", env=env)
        said += out
        assert code in {0, 1}, out
        assert "Traceback" not in out, out
        assert not processes_with(str(yard.folder))
        if code == 0:
            return said
    raise AssertionError(said)


@pytest.mark.parametrize("kind", ["drop", "stall", "corrupt"])
def test_a_wheel_that_is_cut_stalls_or_is_changed_on_its_way_comes_whole(
    index: int, tmp_path: Path, kind: str
) -> None:
    yard = Yard(tmp_path / "yard")
    fault = Fault(kind, BIG // 2)  # type: ignore[arg-type]  # one of the three
    with wire(index, fault) as line:
        url = f"http://127.0.0.1:{line.port}/simple"
        yard.profile(target={"gpus": []}, torch={"strategy": "prebuilt", "index": url})
        env = {**PATIENCE, "PIP_INDEX_URL": url, "PIP_NO_CACHE_DIR": "1"}
        said = finished(yard, env)
    assert line.met == 1, said
    assert ("(hash-mismatch)" in said) == (kind == "corrupt"), said
    (wheel,) = (yard.folder / "wheelhouse").glob("torch-*.whl")
    made = next((tmp_path / "made").glob("*.whl"))
    assert sha256(wheel.read_bytes()).digest() == sha256(made.read_bytes()).digest()
    assert not list((yard.folder / "wheelhouse").glob("*.part"))


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    tree = make_tree(tmp_path / "git" / "pytorch")
    (tree / "large").write_bytes(os.urandom(BIG))
    git(tree, "init", "-q", "-b", "main")
    commit(tree, "first")
    return tree


@pytest.fixture
def daemon(upstream: Path) -> Iterator[int]:
    """The port of git's own server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    argv = ["git", "daemon", "--reuseaddr", "--export-all", f"--base-path={upstream.parent}"]
    with subprocess.Popen([*argv, "--listen=127.0.0.1", f"--port={port}"]) as child:
        for _ in range(100):
            with socket.socket() as asking:
                if asking.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
        child.terminate()


@pytest.mark.parametrize("after", [100, BIG // 2])
def test_a_clone_that_is_cut_is_taken_up(
    upstream: Path, daemon: int, tmp_path: Path, after: int
) -> None:
    yard = Yard(tmp_path / "yard")
    with wire(daemon, Fault("drop", after), Fault("drop", after)) as line:
        profile = source_profile(upstream)
        profile["source"] = {"git": f"git://127.0.0.1:{line.port}/pytorch", "ref": "main"}
        yard.profile(**profile)
        said = ""
        for _ in range(3):
            code, out = yard.doit("source")
            said += out
            assert "Traceback" not in out, out
            if code == 0:
                break
    assert code == 0, said
    assert line.met == 2, said
    assert yard.manifest("source")["commit"] == git(upstream, "rev-parse", "HEAD")
    (large,) = yard.build.rglob("src/*/large")
    assert large.read_bytes() == (upstream / "large").read_bytes()
    assert not processes_with(str(yard.folder))
