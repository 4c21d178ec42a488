"""Bundles are complete or absent, are verified before use, and replace every other source."""

from __future__ import annotations

import os
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.core.errors import BadArtifactError, FetchError, NotOwnedError, SettingsError
from tasks.core.model import Layout, Plan
from tasks.core.project import Project
from tasks.lock import bundle_archive_io
from tasks.lock.bundle_archive_io import (
    BUNDLE_SCHEMA,
    MANIFEST_NAME,
    WHEELS_FOLDER,
    Bundle,
    redirect_plan,
)
from tasks.lock.lock_file import identify_platform
from tasks.lock.opened_profile_io import load_pinned_plan
from tasks.settings.schema import parse_settings
from tasks.stages.extensions.plan import plan_extension
from tasks.system import environments, files, manifests
from tasks.system.git import checkout_state, clones
from tasks.system.network import download, network_access
from tasks.system.package_installer import (
    DownloadRequest,
    InstallOptions,
    PackageInstaller,
    build_download_argv,
)
from tests.support import smallwheels
from tests.support.actionyard import CHOICE
from tests.support.checkout import KNOWLEDGE
from tests.support.systems import needs_git
from tests.support.webserver import served
from tests.unit.system.git.test_git import commit, repository, run

BUNDLE = Bundle(BUNDLE_SCHEMA, "1", "mine", "3.12", "linux x86_64")


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def create_bundle(dest: Path) -> Bundle:
    folder = bundle_archive_io.prepare_bundle_folder(dest)
    (folder / WHEELS_FOLDER).mkdir(exist_ok=True)
    (folder / WHEELS_FOLDER / "a-1-py3-none-any.whl").write_text("a", encoding="utf-8")
    return bundle_archive_io.finish_bundle(folder, dest, BUNDLE)


@pytest.fixture(params=["folder", "archive.tar"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def test_bundle_round_trips_and_leaves_no_temporary_files(place: Path) -> None:
    for _ in range(2):  # the second bundle replaces the first
        bundle = create_bundle(place)
        assert list(place.parent.iterdir()) == [place]
    assert bundle_archive_io.read_bundle(place) == bundle
    assert list(bundle.files) == [f"{WHEELS_FOLDER}/a-1-py3-none-any.whl"]


def test_unmanaged_path_is_not_replaced(place: Path) -> None:
    if place.suffix:
        place.write_text("mine", encoding="utf-8")
    else:
        place.mkdir()
        (place / "mine").touch()
    with pytest.raises(NotOwnedError, match="not a bundle that torchyard created"):
        bundle_archive_io.prepare_bundle_folder(place)
    assert list(place.parent.iterdir()) == [place]


def test_managed_folder_that_is_no_bundle_is_not_replaced(
    tmp_path: Path,
) -> None:
    index = files.create_owned_folder(tmp_path / "index")
    (index / "simple").mkdir()
    with pytest.raises(NotOwnedError, match="not a bundle that torchyard created"):
        bundle_archive_io.prepare_bundle_folder(index)
    assert (index / "simple").is_dir()


def test_interrupted_bundle_is_resumed_and_not_usable(place: Path) -> None:
    first = bundle_archive_io.prepare_bundle_folder(place)
    (first / "arrived").touch()
    again = bundle_archive_io.prepare_bundle_folder(place)
    assert again == first
    assert (again / "arrived").exists()
    assert not place.exists()
    with pytest.raises(SettingsError, match="there is no bundle in") as error:
        bundle_archive_io.read_bundle(first)
    assert error.value.hint.startswith("set offline to a tar")


def test_missing_bundle_path_is_reported_first(place: Path) -> None:
    with pytest.raises(SettingsError) as error:
        bundle_archive_io.read_bundle(place)
    assert error.value.message == f"{place} does not exist"
    assert error.value.hint.startswith("correct the path; or create it on a machine with a network")


def test_bundle_with_modified_file_is_refused(place: Path, tmp_path: Path) -> None:
    bundle, build = create_bundle(place), files.create_owned_folder(tmp_path / "build")
    bundle_archive_io.activate_bundle(place, bundle, build)
    wheel = (
        bundle_archive_io.resolve_bundle_folder(place, build)
        / WHEELS_FOLDER
        / "a-1-py3-none-any.whl"
    )
    wheel.write_text("bb", encoding="utf-8")
    with pytest.raises(BadArtifactError, match=r"a-1-py3-none-any\.whl of the bundle does not"):
        bundle_archive_io.activate_bundle(place, bundle, build)
    wheel.unlink()
    with pytest.raises(BadArtifactError, match="is missing"):
        bundle_archive_io.activate_bundle(place, bundle, build)


with_case = pytest.mark.skipif(
    sys.platform == "win32", reason="not run: a and A are one name on Windows"
)
ADDED = (
    "wheels/filelock-99.0-py3-none-any.whl"  # a .pth file would run in every later Python process
)


@pytest.mark.parametrize(
    "name",
    [
        ADDED,
        pytest.param("wheels/A-1-py3-none-any.whl", marks=with_case),
        "wheels/nested/a-1-py3-none-any.whl",
        "git/a/hooks/x",
    ],
)
def test_file_missing_from_manifest_is_refused(name: str, place: Path, tmp_path: Path) -> None:
    bundle, build = create_bundle(place), files.create_owned_folder(tmp_path / "build")
    added = tmp_path / "added"
    smallwheels.wheel(tmp_path, "added", "1.0", {"added.pth": "import this\n"}).rename(added)
    if place.is_dir():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        added.rename(place / name)
    else:
        with tarfile.open(place, "a") as tar:
            tar.add(added, name)
    with pytest.raises(BadArtifactError, match=f"{name} is in the bundle, but bundle.json does"):
        bundle_archive_io.activate_bundle(place, bundle, build)
    assert "UV_FIND_LINKS" not in os.environ
    if place.is_dir():
        (place / name).unlink()
    else:
        create_bundle(place)
    bundle_archive_io.activate_bundle(place, bundle, build)


@pytest.mark.skipif(sys.platform == "win32", reason="not run: not everyone may make links")
@pytest.mark.parametrize("name", [ADDED, "wheels/a-1-py3-none-any.whl", "wheels/folder"])
def test_link_in_bundle_is_refused(name: str, place: Path, tmp_path: Path) -> None:
    """Even if it replaces a listed file with the same bytes: its target may change."""
    bundle, build = create_bundle(place), files.create_owned_folder(tmp_path / "build")
    (tmp_path / "same").write_text("a", encoding="utf-8")
    to = "." if name.endswith("folder") else str(tmp_path / "same")
    if place.is_dir():
        (place / name).unlink(missing_ok=True)
        (place / name).symlink_to(to)
    else:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, "." if to == "." else f"../{MANIFEST_NAME}"
        with tarfile.open(place, "a") as tar:
            tar.addfile(link)
    with pytest.raises(BadArtifactError, match=f"{name} is in the bundle"):
        bundle_archive_io.activate_bundle(place, bundle, build)


def test_installer_gets_folder_of_verified_wheels(place: Path, tmp_path: Path) -> None:
    bundle, build = create_bundle(place), files.create_owned_folder(tmp_path / "build")
    bundle_archive_io.activate_bundle(place, bundle, build)
    shelf = build / "offline-wheels"
    assert os.environ["UV_FIND_LINKS"] == os.environ["PIP_FIND_LINKS"] == shelf.as_uri()
    (shelf / "filelock-99.0-py3-none-any.whl").touch()
    bundle_archive_io.activate_bundle(place, bundle, build)
    assert [path.name for path in shelf.iterdir()] == ["a-1-py3-none-any.whl"]


def test_truncated_bundle_is_detected_by_size(
    tmp_path: Path,
) -> None:
    place = tmp_path / "archive.tar"
    folder = bundle_archive_io.prepare_bundle_folder(place)
    (folder / "big").write_bytes(bytes(100_000))
    bundle = bundle_archive_io.finish_bundle(folder, place, BUNDLE)
    bundle_archive_io.require_complete_bundle(place, bundle)
    os.truncate(place, 60_000)
    assert bundle_archive_io.read_bundle(place) == bundle
    with pytest.raises(SettingsError, match="is truncated: it has only 60000 of") as error:
        bundle_archive_io.require_complete_bundle(place, bundle)
    assert error.value.hint.startswith(
        "copy the bundle again; or create it on a machine with a network"
    )
    with pytest.raises(BadArtifactError, match="cannot be read as an archive") as unread:
        bundle_archive_io.activate_bundle(
            place, bundle, files.create_owned_folder(tmp_path / "build")
        )
    assert unread.value.hint.startswith("copy the bundle again")


@pytest.mark.parametrize(
    ("platform", "todo"),
    [
        (
            identify_platform(CHOICE)[1],
            'set python: "3.4", or create a bundle on a machine',
        ),
        ("windows amd64", "create a bundle on a machine like this one"),
    ],
)
def test_bundle_for_other_host_suggests_python_if_useful(
    platform: str, todo: str, tmp_path: Path
) -> None:
    bundle = replace(BUNDLE, python="3.4", platform=platform)
    manifests.write_manifest(tmp_path / MANIFEST_NAME, bundle)
    layout = Layout(Project.of_checkout(tmp_path), "mine", tmp_path / "wheels")
    asked = parse_settings({"offline": str(tmp_path), "extensions": ["simple-knn"]})
    extension = plan_extension(asked.extensions[0], asked, layout, CHOICE, KNOWLEDGE)
    with pytest.raises(SettingsError, match=f"for Python 3.4 on {platform}") as error:
        load_pinned_plan(asked, layout, CHOICE, Plan((), extension, ()))
    assert error.value.hint.startswith(todo)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(BUNDLE, schema=BUNDLE_SCHEMA + 1),
        replace(BUNDLE, repositories={"https://a": "../../outside"}),
        replace(BUNDLE, archives={"https://a": "/etc/passwd"}),
    ],
)
def test_manifest_with_outside_path_or_newer_format_is_refused(
    wrong: Bundle, tmp_path: Path
) -> None:
    manifests.write_manifest(tmp_path / MANIFEST_NAME, wrong)
    with pytest.raises(SettingsError, match="cannot read the format of the bundle") as error:
        bundle_archive_io.read_bundle(tmp_path)
    assert error.value.location == "offline"


def test_offline_mode_ignores_every_index(tmp_path: Path) -> None:
    os.environ |= {"PIP_INDEX_URL": "https://index.example", "UV_INDEX": "https://index.example"}
    network_access.start_offline_mode(tmp_path)
    into = PackageInstaller("python", "uv", tmp_path / "log")
    extra = InstallOptions(index="https://index.example/cu128")
    asked = DownloadRequest("python", "a==1", "https://index.example", tmp_path, tmp_path / "log")
    assert not any("index.example" in word for word in into.build_install_argv(["a"], extra))
    assert not any("index.example" in word for word in build_download_argv(asked))
    assert "PIP_INDEX_URL" not in os.environ
    assert "UV_INDEX" not in os.environ
    with pytest.raises(FetchError, match="is not in the bundle"):
        download.download_file("https://a.example/a.tar", tmp_path / "a.tar", None)


def test_offline_uv_uses_no_cached_index_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv's cache may hold newer versions from an index that it used before."""
    for version in ("1.0", "2.0"):
        smallwheels.wheel(tmp_path / version / "kept", "kept", version, {"kept.py": ""})
    network_access.start_offline_mode(tmp_path / "1.0" / "kept")
    monkeypatch.delenv("UV_OFFLINE")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    with served(tmp_path / "2.0") as url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        into = PackageInstaller(
            sys.executable, environments.find_uv(), tmp_path / "log", tmp_path / "there"
        )
        into.install_requirements(["kept"])
    there = [path.name for path in (tmp_path / "there").glob("*.dist-info")]
    assert there == ["kept-1.0.dist-info"]


@needs_git
def test_offline_git_contacts_no_other_host(tmp_path: Path) -> None:
    network_access.start_offline_mode(tmp_path)
    with pytest.raises(FetchError, match="the bundle does not contain") as error:
        clones.clone_at_ref("https://git.example/a", "main", tmp_path / "there" / "a")
    assert "not allowed" in str(error.value)


@needs_git
def test_bundled_repositories_include_commit_and_submodules(tmp_path: Path) -> None:
    upstream = {"https://git.example/": f"{tmp_path / 'git'}/"}
    inner = repository(tmp_path / "git" / "inner")
    outer = repository(tmp_path / "git" / "outer")
    run(outer, "submodule", "--quiet", "add", str(inner), "within")
    run(outer, "config", "--file", ".gitmodules", "submodule.within.url", "../inner")
    commit(outer)
    url, tree = "https://git.example/outer", tmp_path / "ours" / "tree"
    clones.clone_at_ref(url, "main", tree, mirrors=upstream)
    found = list(bundle_archive_io.list_commits(url, tree, "main"))
    assert [one.url for one in found] == [url, "https://git.example/inner"]
    places = {
        one.url: files.create_owned_folder(
            tmp_path / bundle_archive_io.build_repository_name(one.url)
        )
        for one in found
    }
    for one in found:
        bundle_archive_io.store_commit(one, places[one.url], tmp_path / "log")
    (tmp_path / "git").rename(tmp_path / "gone")
    network_access.start_offline_mode(tmp_path)
    mirrors = {name: str(place) for name, place in places.items()}
    for ref in ("main", checkout_state.read_git_state(tree).commit):
        again = tmp_path / "ours" / f"at {ref}"
        clones.clone_at_ref(url, ref, again, mirrors=mirrors)
        assert checkout_state.read_git_state(again) == checkout_state.read_git_state(tree)


def test_every_git_url_of_plan_is_redirected_to_bundle(tmp_path: Path) -> None:
    url = "https://me:secret@git.example/a"
    asked = parse_settings(
        {"extensions": [{"name": "a", "git": url}], "source": {"mirrors": {"https://x/": "/y/"}}}
    )
    stage = plan_extension(
        asked.extensions[0],
        asked,
        Layout(Project.of_checkout(tmp_path), "p", tmp_path),
        CHOICE,
        KNOWLEDGE,
    )
    bundle = replace(BUNDLE, repositories={"https://***@git.example/a": "git/a"})
    (found,) = redirect_plan(Plan((stage,), stage, ()), bundle, tmp_path).stages
    assert found.job.mirrors[url] == str(tmp_path / "git" / "a")
    assert found.job.mirrors["https://x/"] == "/y/"
    assert found.fingerprint == stage.fingerprint
