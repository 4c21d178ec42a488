"""Mirrors: what is built through one is what is built without, byte for byte and name for name; of
every file that one gave the lock has the digest; and one that lies is found out.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.core.errors import BadArtifactError, FetchError
from tasks.knowledge.mirrors import DEFAULT_INDEX
from tasks.system import environments, files, output, package_installer
from tasks.system.network import network_access
from tasks.system.package_installer import DownloadRequest, PackageInstaller
from tests.integration.conftest import commit, git
from tests.support import smallwheels
from tests.support.checkout import Heard
from tests.support.pypimirror import Mirror, mirroring
from tests.support.sharedlibrary import compile_library
from tests.support.systems import linux_only
from tests.support.toyextension import make_extension
from tests.support.webserver import Quiet, running
from tests.support.yard import NAME, Yard

pytestmark = [pytest.mark.integration, linux_only]


class Served(ThreadingHTTPServer):
    """A folder as a web server lists it; `asked` are the paths."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(Quiet):
    server: Served

    def log_request(self, *_: object) -> None:
        self.server.asked.append(self.path)


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    with running(Served(folder)) as made:
        yield made


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with a torch and what it needs; an extension in git that asks for something."""
    folder = tmp_path_factory.mktemp("upstream")
    library = compile_library(folder / "libtorch.so", "int torch_add(void) { return 1; }")
    made = smallwheels.torch(
        folder / "index" / "torch", "2.6.0", requires=["needed>=1"], library=library.read_bytes()
    )
    assert made.is_file()
    smallwheels.wheel(folder / "index" / "needed", "needed", "1.0", {"needed.py": "x = 1\n"})
    toy = make_extension(folder / "git" / "toy.git")
    setup = (toy / "setup.py").read_text(encoding="utf-8")
    setup = setup.replace("setup(name", 'setup(install_requires=["pluggy"], name')
    (toy / "setup.py").write_text(f"import iniconfig\n{setup}", encoding="utf-8")
    git(toy, "init", "-q", "-b", "main")
    commit(toy, "first")
    return folder


def profile(upstream: Path, index: Served, **more: Any) -> dict[str, Any]:
    toy = {"name": "toy", "git": "https://git.example/toy.git", "ref": "main"}
    return {
        "target": {"gpus": []},
        "torch": {"strategy": "prebuilt", "version": "2.6.0", "index": index.url},
        "source": {"mirrors": {"https://git.example/": f"{upstream / 'git'}/"}},
        "extensions": [
            {**toy, "imports": ["toyext"], "requires": ["iniconfig"], "env": {"CFLAGS": "-g0"}},
            {"name": "packed", "sdist": "simplejson==3.19.3"},
        ],
        **more,
    }


def preset(yard: Yard, instead: dict[str, str]) -> None:
    """One more row of the facts."""
    path = yard.folder / "config" / "knowledge" / "mirrors.yaml"
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    row = {"who": "a test", "instead": instead, "status": "unverified", "note": ""}
    told["presets"]["near"] = row
    path.write_text(yaml.safe_dump(told), encoding="utf-8")


def shown(yard: Yard) -> dict[str, Any]:
    """Manifests, lock, SBOM and statement, but for places, times and what is made anew."""
    texts = {}
    for name in ("deps", "wheel", "surface", "extensions:toy", "extensions:packed"):
        told = yard.manifest(name)
        told.pop("identity", None)
        texts[name] = json.dumps(told, sort_keys=True).replace(str(yard.folder), "")
    for path in sorted((yard.folder / "wheelhouse").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        told.get("predicate", {}).get("runDetails", {}).pop("metadata", None)
        texts[path.name] = json.dumps(told, sort_keys=True).replace(str(yard.folder), "")
    for wheel in sorted((yard.folder / "wheelhouse").glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            names = [one for one in archive.namelist() if "/sboms/" in one]
            texts |= {name: archive.read(name).decode() for name in names}
    texts["lock"] = (yard.folder / "torchyard.lock").read_text(encoding="utf-8")
    return texts


def bytes_of(yard: Yard) -> dict[str, bytes]:
    paths = [*yard.build.glob("*.json"), *yard.build.glob("extensions/*.json")]
    return {path.name: path.read_bytes() for path in paths if not path.name.endswith("record.json")}


@pytest.mark.long
def test_through_mirrors_the_same_is_built_and_all_that_came_is_locked(
    upstream: Path, tmp_path: Path
) -> None:
    with (
        serving(upstream / "index") as index,
        serving(upstream / "index") as near,
        mirroring(DEFAULT_INDEX) as pypi,
    ):
        straight, through = Yard(tmp_path / "straight"), Yard(tmp_path / "through")
        instead = {index.url: near.url, DEFAULT_INDEX: pypi.url}
        for yard in (straight, through):
            preset(yard, instead)
        straight.profile(**profile(upstream, index))
        straight.must("build")
        straight.must("lock")
        before = bytes_of(straight)
        straight.profile(**profile(upstream, index, mirrors=["near"]))
        assert "Up to date" in straight.must("build")
        assert bytes_of(straight) == before, "to turn it on changes nothing"
        assert not near.asked
        assert not pypi.gave

        index.asked.clear()
        through.profile(**profile(upstream, index, mirrors=["near"]))
        env = {
            "UV_CACHE_DIR": str(tmp_path / "uv"),
            "PIP_CACHE_DIR": str(tmp_path / "pip"),
            "no_proxy": "127.0.0.1",
        }
        code, said = through.doit("build", env=env)
        assert code == 0, said
        given = dict(pypi.gave)  # by the build: the lock asks for digests
        assert any(path.startswith("/torch/torch-2.6.0") for path in near.asked)
        code, said = through.doit("lock", env=env)
        assert code == 0, said
        assert f"{NAME} matches the build" in straight.must("lock", "--check")
        assert not index.asked, "nobody asked the index itself"
        said = " ".join(through.doit("doctor", "--verbose", env=env)[1].split())
        assert f"{pypi.url} (mirror of {DEFAULT_INDEX}) answers" in said
        assert f"{near.url} (mirror of {index.url}) answers" in said
    assert shown(through) == shown(straight)
    assert {"cmake", "numpy", "iniconfig", "pluggy"} <= {name.split("-")[0] for name in given}
    text = (through.folder / "torchyard.lock").read_text(encoding="utf-8")
    from_torchs = [upstream / "index" / path.lstrip("/") for path in near.asked if "whl" in path]
    given |= {path.name: files.read_artifact(path).sha256 for path in from_torchs}
    assert [name for name, sha256 in given.items() if sha256 not in text] == []
    assert len(given) > 8


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Heard:
    """Nobody waits, nothing is cached, and what is said is kept."""
    monkeypatch.setattr(network_access, "RETRY_PAUSES", (0.0, 0.0))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    alone = {"UV_NO_CONFIG": "1", "PIP_CONFIG_FILE": os.devnull, "no_proxy": "127.0.0.1"}
    caches = {"UV_CACHE_DIR": str(tmp_path / "uv"), "PIP_CACHE_DIR": str(tmp_path / "pip")}
    for name, value in {**alone, **caches, "UV_DEFAULT_INDEX": ""}.items():
        monkeypatch.setenv(name, value)
    found = Heard()
    output.set_listener(found)
    return found


@pytest.fixture
def liar(tmp_path: Path) -> Iterator[Mirror]:
    """Another file under the name of iniconfig's wheel; the page has the true digest."""
    evil = smallwheels.wheel(tmp_path, "iniconfig", "2.1.0", {"iniconfig.py": "evil = 1\n"})
    with mirroring(DEFAULT_INDEX) as mirror:
        mirror.lies[evil.name] = evil.read_bytes()
        yield mirror


TRUE = "9deba5723312380e77435581c6bf4935c94cbfab9b1ed33ef8d238ea168eb760"  # on PyPI


@pytest.mark.long
def test_a_mirror_that_gives_another_file_is_found_out(
    liar: Mirror, tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = files.create_owned_folder(tmp_path / "work")
    monkeypatch.setenv("UV_DEFAULT_INDEX", liar.url)
    monkeypatch.setenv("PIP_INDEX_URL", liar.url)
    uv = environments.find_uv()
    for one in (uv, None):
        into = PackageInstaller(sys.executable, one, work / "log", work / "site")
        with pytest.raises(BadArtifactError, match=f"torchyard.lock requires {TRUE}") as told:
            into.install_locked({"iniconfig==2.1.0": (TRUE,)})
        assert "find out who changed the file" in told.value.hint
        assert not list(work.rglob("iniconfig*"))
    # without a lock uv and pip go by the digest of the page
    wanted = "iniconfig==2.1.0"
    with pytest.raises(FetchError, match="its index lists"):
        package_installer.download_distribution(
            DownloadRequest(sys.executable, wanted, liar.url, work / "wheel", work / "log")
        )
    with pytest.raises(FetchError, match="its index lists"):
        PackageInstaller(sys.executable, uv, work / "log", work / "site").install_requirements(
            [wanted]
        )
    # and where that lies too, nothing but a lock tells
    liar.pages_lie = True
    PackageInstaller(sys.executable, uv, work / "log", work / "theirs").install_requirements(
        [wanted]
    )
    assert (work / "theirs" / "iniconfig.py").read_text(encoding="utf-8") == "evil = 1\n"
    with pytest.raises(BadArtifactError, match=f"torchyard.lock requires {TRUE}"):
        PackageInstaller(sys.executable, uv, work / "log", work / "site").install_locked(
            {wanted: (TRUE,)}
        )
