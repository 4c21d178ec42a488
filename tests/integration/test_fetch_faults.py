"""Everything that is fetched, over a wire that is cut, stalls, shortens an answer or turns a byte:
once, and it comes whole by itself, with a word; for good, and it is told, with nothing half there.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from http.server import ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tasks.core.errors import TorchyardError
from tasks.system import environments, files, output, package_installer
from tasks.system.git import clones
from tasks.system.network import download, network_access
from tasks.system.package_installer import DownloadRequest, PackageInstaller
from tasks.wheels.package_index_io import add_wheel, render_index_pages
from tests.integration.conftest import commit
from tests.integration.conftest import git as by_hand
from tests.support import githttp, smallwheels
from tests.support.checkout import Heard
from tests.support.faultynet import Fault, wire
from tests.support.rows import long_but
from tests.support.systems import linux_only
from tests.support.webserver import Quiet, running
from tests.support.yard import ROOT

pytestmark = [pytest.mark.integration, linux_only]

BIG = 300_000  # bytes; what is beside them is far smaller
CODE = f"x = {os.urandom(BIG // 2).hex()!r}\n"
DATA = os.urandom(BIG)


@dataclass(frozen=True)
class Upstream:
    """The ports of a web server and of git's own."""

    web: int
    git: int


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    """An archive and an index with one wheel; repositories, one of them inside another."""
    folder = tmp_path_factory.mktemp("upstream")
    web = files.create_owned_folder(folder / "web")
    (web / "source.tar.gz").write_bytes(DATA)
    made = smallwheels.wheel(folder / "made", "bigone", "1.0", {"bigone.py": CODE})
    for path, text in render_index_pages(
        ROOT / "templates" / "index", [add_wheel(web, made)]
    ).items():
        files.write_atomic(web / path, text)
    for name in ("inner", "outer"):
        (folder / "git" / name).mkdir(parents=True)
        by_hand(folder / "git" / name, "init", "-q", "-b", "main")
    (folder / "git" / "inner" / "large").write_bytes(DATA)
    commit(folder / "git" / "inner", "first")
    allowed = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add")
    outer = folder / "git" / "outer"
    by_hand(outer, *allowed, str(folder / "git" / "inner"), "inner")
    by_hand(outer, "config", "-f", ".gitmodules", "submodule.inner.url", "../inner")
    commit(outer, "first")
    with ExitStack() as stack:
        handler = partial(Quiet, directory=str(web))
        server = stack.enter_context(running(ThreadingHTTPServer(("127.0.0.1", 0), handler)))
        yield Upstream(server.server_port, stack.enter_context(githttp.serving(folder / "git")))


@pytest.fixture(autouse=True)
def heard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Heard:
    """Nobody pauses, and what is said is kept."""
    monkeypatch.setattr(network_access, "RETRY_PAUSES", (0.0, 0.0))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    given = {
        "UV_DEFAULT_INDEX": "",  # so that it is as before when by_uv has set it
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "PIP_CACHE_DIR": str(tmp_path / "pip"),
        "UV_NO_CONFIG": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "no_proxy": "127.0.0.1",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    waiting(monkeypatch, 60)
    found = Heard()
    output.set_listener(found)
    return found


def waiting(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """How long a client bears silence: long where there shall be none, on a slow machine, too."""
    monkeypatch.setattr(download, "_READ_TIMEOUT", float(seconds))
    monkeypatch.setenv("GIT_HTTP_LOW_SPEED_LIMIT", "1000")
    for name in ("UV_HTTP_TIMEOUT", "PIP_DEFAULT_TIMEOUT", "GIT_HTTP_LOW_SPEED_TIME"):
        monkeypatch.setenv(name, str(seconds))


def tarball(port: int, at: Path) -> Path:
    digest = hashlib.sha256(DATA).hexdigest()
    return download.download_file(f"http://127.0.0.1:{port}/source.tar.gz", at / "source", digest)


def by_uv(port: int, at: Path) -> Path:
    os.environ["UV_DEFAULT_INDEX"] = f"http://127.0.0.1:{port}/simple"
    site = at / "site"
    PackageInstaller(sys.executable, environments.find_uv(), at / "log", site).install_requirements(
        ["bigone"]
    )
    return site / "bigone.py"


def by_pip(port: int, at: Path) -> Path:
    index = f"http://127.0.0.1:{port}/simple"
    return package_installer.download_distribution(
        DownloadRequest(sys.executable, "bigone==1.0", index, at / "wheel", at / "log")
    )


def clone(port: int, at: Path) -> Path:
    clones.clone_at_ref(f"http://127.0.0.1:{port}/inner", "main", at / "clone", log=at / "log")
    return at / "clone" / "large"


def submodule(port: int, at: Path) -> Path:
    clones.clone_at_ref(f"http://127.0.0.1:{port}/outer", "main", at / "clone", log=at / "log")
    return at / "clone" / "inner" / "large"


CLIENTS: dict[str, Any] = {
    "tarball": tarball, "uv": by_uv, "pip": by_pip, "clone": clone, "submodule": submodule
}  # fmt: skip


def port_of(upstream: Upstream, name: str) -> int:
    return upstream.git if name in {"clone", "submodule"} else upstream.web


KINDS = ("drop", "stall", "truncate", "corrupt")
# each client and each fault
PLAIN = (
    *(("tarball", "drop"), ("uv", "stall"), ("pip", "truncate")),
    *(("clone", "corrupt"), ("submodule", "drop")),
)


@pytest.mark.parametrize(("name", "kind"), long_but(PLAIN, product(CLIENTS, KINDS)))
def test_what_meets_a_fault_once_comes_whole_by_itself_and_says_so(  # noqa: PLR0917
    upstream: Upstream, tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch,
    name: str, kind: Any,
) -> None:  # fmt: skip
    port, at = port_of(upstream, name), files.create_owned_folder(tmp_path / "at")
    if kind == "stall":
        waiting(monkeypatch, 2)
    with wire(port, Fault(kind, BIG // 2)) as line:
        path = CLIENTS[name](line.port, at)
    assert line.met == 1, heard
    assert len([line for line in heard if "again" in line or "goes on" in line]) == 1, heard
    content = path.read_bytes()
    assert content in {DATA, CODE.encode()} or (b"bigone" in content and name == "pip")


@pytest.mark.parametrize(
    ("name", "kind"),
    long_but([("tarball", "drop"), ("uv", "corrupt"), ("submodule", "corrupt")], [
        ("tarball", "truncate"), ("tarball", "drop"), ("uv", "corrupt"), ("uv", "stall"),
        ("pip", "truncate"), ("clone", "stall"), ("submodule", "corrupt"),
    ]),
)  # fmt: skip
def test_a_fault_that_lasts_is_told_and_leaves_nothing_half_there(  # noqa: PLR0917
    upstream: Upstream, tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch,
    name: str, kind: Any,
) -> None:  # fmt: skip
    port, at = port_of(upstream, name), files.create_owned_folder(tmp_path / "at")
    monkeypatch.setattr(network_access, "RETRY_PAUSES", (0.0,))
    if kind == "stall":
        waiting(monkeypatch, 2)
    for variable in ("UV_HTTP_RETRIES", "PIP_RETRIES", "PIP_RESUME_RETRIES"):
        monkeypatch.setenv(variable, "0")
    with wire(port, *[Fault(kind, BIG // 2)] * 40) as line:
        with pytest.raises(TorchyardError) as told:
            CLIENTS[name](line.port, at)
        assert line.met >= 2, "it was tried again"
        assert "run the same command again" in told.value.hint
        arrived = [path for path in at.rglob("*") if path.name in {"source", "bigone.py", "large"}]
        assert not [*arrived, *at.rglob("*.whl")], "nothing half is taken for whole"
        line.faults.clear()
        assert CLIENTS[name](line.port, at).is_file(), "the same command, once the fault is gone"


def test_pip_is_not_given_from_its_cache_what_came_with_other_bytes(
    upstream: Upstream, tmp_path: Path, heard: Heard
) -> None:
    with wire(upstream.web, Fault("corrupt", BIG // 2)) as line:
        by_pip(line.port, files.create_owned_folder(tmp_path / "one"))
        by_pip(line.port, files.create_owned_folder(tmp_path / "two"))
    assert [line for line in heard if "the file has another sha256; trying again" in line]
