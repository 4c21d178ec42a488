"""What opens an index or a compiler cache reaches the program that needs it, and no argument list
and no build backend.
"""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from tasks.core.deps_model import CompilerCache
from tasks.stages.env.model import CacheEnvironment
from tasks.system import environments, manifests
from tasks.system.package_installer import (
    DownloadRequest,
    InstallOptions,
    PackageInstaller,
    download_distribution,
)
from tests.support.actionyard import built, make_yard, script
from tests.support.systems import linux_only
from tests.support.toyextension import environments_of, make_ninja_extension
from tests.support.webserver import Quiet, running

pytestmark = [pytest.mark.integration, linux_only]

USER, PASSWORD = "me", "hunter2-zzz"
NAME = "torchyard-recorded"
# Its wheel is a few files; before it is made, all that it sees is written down
BACKEND = """
import json, os, pathlib, zipfile

def seen():
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            yield (folder / "cmdline").read_text(errors="replace")
        except OSError:
            pass

def build_wheel(folder, config_settings=None, metadata_directory=None):
    told = {{"environ": dict(os.environ), "argv": list(seen())}}
    pathlib.Path({record!r}).write_text(json.dumps(told))
    info, name = "torchyard_recorded-1.0.dist-info", "torchyard_recorded-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        metadata = "Metadata-Version: 2.1\\nName: torchyard-recorded\\nVersion: 1.0\\n"
        wheel.writestr(info + "/METADATA", metadata)
        tag = "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(info + "/WHEEL", tag)
        wheel.writestr(info + "/RECORD", "")
    return name
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "torchyard-recorded"
version = "1.0"
"""


class Closed(Quiet):
    """Files for who knows the password."""

    def do_GET(self) -> None:  # noqa: N802 - the name is the server's
        known = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") == f"Basic {known}":
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Host and port of an index with one sdist, which asks for a password."""
    folder = tmp_path / "index" / NAME
    folder.mkdir(parents=True)
    texts = {"pyproject.toml": PYPROJECT, "PKG-INFO": "Metadata-Version: 2.1\nName: x\nVersion: 1"}
    texts["backend.py"] = BACKEND.format(record=str(tmp_path / "record.json"))
    with tarfile.open(folder / "torchyard_recorded-1.0.tar.gz", "w:gz") as sdist:
        for name, text in texts.items():
            member = tarfile.TarInfo(f"torchyard_recorded-1.0/{name}")
            member.size = len(text.encode())
            sdist.addfile(member, io.BytesIO(text.encode()))
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_PUBLISH_TOKEN", f"pypi-{PASSWORD}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    handler = partial(Closed, directory=str(tmp_path / "index"))
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        open_to_all = f"http://127.0.0.1:{server.server_port}/nothing"
        monkeypatch.setenv("UV_DEFAULT_INDEX", open_to_all)
        monkeypatch.setenv("PIP_INDEX_URL", open_to_all)
        yield f"127.0.0.1:{server.server_port}"


@pytest.fixture
def python(venv: Path) -> str:
    return str(environments.find_venv_python(venv))


@pytest.mark.parametrize(
    ("client", "by"),
    [("uv", "setting"), ("uv", "variable"), ("uv", "index"), ("pip", "setting"), ("pip", "file")],
)
def test_no_password_is_in_an_argument_list_or_seen_by_a_build_backend(  # noqa: PLR0917
    client: str, by: str, place: str, python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, index = f"http://{USER}:{PASSWORD}@{place}", ""
    match by:
        case "setting":
            index = url
        case "variable":
            monkeypatch.setenv("UV_EXTRA_INDEX_URL", url)
        case "index":
            monkeypatch.setenv("UV_INDEX", f"my-own=http://{place}")
            monkeypatch.setenv("UV_INDEX_MY_OWN_USERNAME", USER)
            monkeypatch.setenv("UV_INDEX_MY_OWN_PASSWORD", PASSWORD)
        case "file":
            (tmp_path / "home" / ".config" / "pip").mkdir(parents=True)
            text = f"[global]\nextra-index-url = {url}\n"
            (tmp_path / "home" / ".config" / "pip" / "pip.conf").write_text(text, encoding="utf-8")
    uv = environments.find_uv() if client == "uv" else None
    into = PackageInstaller(python, uv, tmp_path / "x.log", tmp_path / "there")
    into.install_requirements([NAME], InstallOptions(index=index))
    record = (tmp_path / "record.json").read_text(encoding="utf-8")
    assert NAME in record, "the command of the client was seen"
    assert PASSWORD not in record
    assert not Path(json.loads(record)["environ"].get("NETRC", "nowhere")).exists()
    assert PASSWORD not in (tmp_path / "x.log").read_text(encoding="utf-8")


def test_an_sdist_is_downloaded_without_showing_the_password(
    place: str, python: str, tmp_path: Path
) -> None:
    job = DownloadRequest(
        python, f"{NAME}==1.0", f"http://{USER}:{PASSWORD}@{place}", tmp_path / "landing",
        tmp_path / "x.log", sdist=True,
    )  # fmt: skip
    assert download_distribution(job).name == "torchyard_recorded-1.0.tar.gz"
    assert not (tmp_path / "record.json").exists(), "no code of the sdist was run"
    assert PASSWORD not in (tmp_path / "x.log").read_text(encoding="utf-8")


CCACHE = """\
#!/bin/sh
case "$1" in --show-config) exit 0 ;; esac
cat "$CCACHE_CONFIGPATH" >> "{seen}"
exec "$@"
"""


def test_extension_build_gets_no_credentials(
    venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        *("PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_INDEX_MINE_PASSWORD", "UV_PUBLISH_TOKEN"),
        *("SCCACHE_REDIS_PASSWORD", "SCCACHE_WEBDAV_TOKEN", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"),
    ):
        monkeypatch.setenv(name, f"https://{USER}:{PASSWORD}@index.example")
    monkeypatch.setenv("CCACHE_REMOTE_STORAGE", f"redis://{PASSWORD}@cache.example")
    yard, seen = make_yard(tmp_path, venv), tmp_path / "store"
    extension = make_ninja_extension(tmp_path / "extension")
    job = yard.extension(extension)
    ccache = CompilerCache("ccache", script(tmp_path / "ccache", CCACHE.format(seen=seen)), "4.9")
    wrapped = {"CC": (ccache.path, "cc")}
    manifests.write_manifest(
        job.layout.compute_manifest_path("cache-env"), CacheEnvironment(ccache, {}, {}, wrapped)
    )
    assert built(job).name.startswith("toyext-1.0")
    shared = f"remote_storage = redis://{PASSWORD}@cache.example\n"
    assert seen.read_text(encoding="utf-8").startswith(shared)
    (env,) = environments_of(extension)
    assert "CCACHE_CONFIGPATH" in env
    assert PASSWORD not in json.dumps(env)
    left = [path for path in Path(yard.layout.build).rglob("*") if path.is_file()]
    assert not [path for path in left if PASSWORD.encode() in path.read_bytes()]
