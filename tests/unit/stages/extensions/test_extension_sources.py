"""Tests of fetching and patching an extension's source."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.core.canonical_json import compute_text_sha256
from tasks.core.deps_model import DepsManifest, Program
from tasks.core.errors import FetchError, TorchyardError
from tasks.core.model import Layout
from tasks.core.project import Project
from tasks.settings.schema import parse_settings
from tasks.stages.env.model import Environment
from tasks.stages.extensions import extension_environment_io, extension_sources_io
from tasks.stages.extensions.extension_sources_io import fetch_source, format_edits_suffix
from tasks.stages.extensions.known_extensions import complete_extensions
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.extensions.plan import plan_extension
from tasks.stages.extensions.run import format_local_label, run
from tasks.stages.wheel.model import AbiFingerprint
from tasks.system import files, manifests, package_installer
from tasks.system.git import clones, local_changes
from tasks.system.network import network_access
from tests.support.actionyard import CHOICE
from tests.support.checkout import KNOWLEDGE, ROOT, Heard
from tests.support.systems import needs_git
from tests.support.toyextension import make_extension
from tests.unit.system.git.test_git import commit
from tests.unit.system.git.test_git import run as run_git

NONE = Program("", "")
DEPS = DepsManifest("/v/python", "3.12.0", "1", None, "", None, None, NONE, NONE, NONE, NONE, None)


@needs_git
def test_sdist_is_patched_before_its_code_runs(tmp_path: Path) -> None:
    """The unpatched setup.py fails; pip of this machine runs it."""
    name = "toy-ext-1.0"
    source = make_extension(tmp_path / name)
    setup = (source / "setup.py").read_text(encoding="utf-8")
    (source / "setup.py").write_text(f"raise SystemExit\n{setup}", encoding="utf-8")
    (tmp_path / "index").mkdir()
    with tarfile.open(tmp_path / "index" / "toy_ext-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, name)
    patch = tmp_path / "first.patch"
    patch.write_text(
        "--- a/setup.py\n+++ b/setup.py\n@@ -1,2 +1,2 @@\n-raise SystemExit\n+# mended\n \n",
        "utf-8",
    )
    job = replace(ready(tmp_path, sdist="toy-ext==1.0"), patches=(patch,))
    with indexes_of(tmp_path / "index"):
        tree, found = fetch_source(job, replace(DEPS, python=python_with_pip()))
    assert (tree / "setup.py").read_text(encoding="utf-8") == f"# mended\n{setup}"
    assert found["sdist"] == "toy_ext-1.0.tar.gz"
    assert found["patches"]


@needs_git
@pytest.mark.parametrize("kind", ["git", "path"])
def test_edited_source_changes_wheel_version(tmp_path: Path, kind: str) -> None:
    folder = make_extension(tmp_path / "toy")
    run_git(folder, "init", "-q")
    commit(folder)
    asked = {kind: str(folder)}
    clean = toy_job(tmp_path, asked)
    tree = Path(clean.clone) if kind == "git" else folder

    def suffix(job: ExtensionJob = clean) -> str:
        _, found = fetch_source(job, DEPS)
        return format_edits_suffix(job, found)

    assert suffix() == ""
    (tree / "setup.py").write_text("# edited\n", encoding="utf-8")
    first = suffix()
    assert re.fullmatch(r"\.d[0-9a-f]{6}", first)
    assert suffix() == first
    (tree / "setup.py").write_text("# edited again\n", encoding="utf-8")
    assert suffix() not in {first, ""}
    run_git(tree, "checkout", "-q", "setup.py")
    assert suffix() == ""
    patch = tmp_path / "one.patch"
    patch.write_text("--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n", encoding="utf-8")
    assert suffix(toy_job(tmp_path, {**asked, "patches": [str(patch)]})).startswith(".d")


def test_folder_without_git_is_versioned_by_content(tmp_path: Path) -> None:
    job = toy_job(tmp_path, {"path": str(make_extension(tmp_path / "toy"))})
    _, found = fetch_source(job, DEPS)
    assert format_edits_suffix(job, found) == f".d{compute_text_sha256(found['digest'])[:6]}"


def toy_job(folder: Path, asked: dict[str, Any]) -> ExtensionJob:
    settings = parse_settings({"extensions": [{"name": "toy", **asked}]})
    layout = Layout(Project.of_checkout(folder), "p", folder / "wheelhouse")
    files.create_owned_folder(layout.build)
    job = plan_extension(settings.extensions[0], settings, layout, CHOICE, KNOWLEDGE).job
    assert isinstance(job, ExtensionJob)
    return job


def python_with_pip() -> str:
    """Return this interpreter or the base of its venv, whichever has pip."""
    for python in (sys.executable, getattr(sys, "_base_executable", sys.executable)):
        if not subprocess.run([python, "-m", "pip", "--version"], check=False).returncode:
            return str(python)
    pytest.skip("no interpreter here has pip")


@contextmanager
def indexes_of(folder: Path) -> Iterator[None]:
    """Make pip use only that folder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PIP_NO_INDEX", "1")
        patched.setenv("PIP_FIND_LINKS", str(folder))
        yield


def ready(folder: Path, **listed: Any) -> ExtensionJob:
    """Return the job of an extension with that entry, and write the manifests it reads."""
    layout = Layout(Project.of_checkout(folder), "p", folder / "wheelhouse")
    asked = complete_extensions(
        parse_settings({"extensions": [{"name": "toy", **listed}]}), KNOWLEDGE
    )
    job: ExtensionJob = plan_extension(asked.extensions[0], asked, layout, CHOICE, KNOWLEDGE).job
    job = replace(job, knowledge=ROOT / "config" / "knowledge")
    files.create_owned_folder(layout.build)
    manifests.write_manifest(layout.compute_manifest_path("deps"), DEPS)
    surface = AbiFingerprint("2.15.0", None, "cp312", "", "", None, None, "1")
    manifests.write_manifest(layout.compute_manifest_path("surface"), surface)
    manifests.write_manifest(
        layout.compute_manifest_path("extension-env"), Environment({}, {}, (), ":")
    )
    return job


@pytest.mark.parametrize("lacks", ["the sdist", "what its build imports"])
@pytest.mark.parametrize("optional", [True, False])
def test_unreachable_sdist_fails_build_unless_optional(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard, lacks: str, optional: bool
) -> None:
    job = ready(tmp_path, sdist="toy==1.0", optional=optional)

    def unreachable(*_: object) -> None:
        raise FetchError("no such thing")

    if lacks == "the sdist":
        monkeypatch.setattr(package_installer, "download_distribution", unreachable)
    else:
        monkeypatch.setattr(extension_sources_io, "fetch_source", lambda *_: (tmp_path, {}))
        monkeypatch.setattr(extension_environment_io, "prepare_build", unreachable)
    if optional:
        (built,) = run(job)
        assert built.status == "unreachable"
        assert "toy was not built: no such thing" in "\n".join(heard)
    else:
        with pytest.raises(FetchError, match="no such thing"):
            run(job)


def test_folder_with_merge_conflicts_is_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = local_changes.MergeConflicts(("setup.py",), "git merge --abort")
    monkeypatch.setattr(local_changes, "find_conflicts", {tmp_path / "toy": found}.get)
    job = ready(tmp_path, path=str(tmp_path / "toy"))
    with pytest.raises(TorchyardError, match=r"^extensions \(toy\)\.path: .* conflicts: setup\.py"):
        run(job)


def test_folder_with_git_file_is_copied(tmp_path: Path) -> None:
    folder = make_extension(tmp_path / "toy")
    (folder / ".git").write_text("gitdir: ../.git/modules/toy\n", encoding="utf-8")
    tree, _ = fetch_source(ready(tmp_path, path=str(folder)), DEPS)
    assert (tree / "setup.py").is_file()


def test_offline_build_does_not_contact_host_of_optional_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    def asked(url: str) -> bool:
        raise AssertionError(url)

    url = "https://git.example/toy"
    job = ready(tmp_path, git=url, optional=True)
    monkeypatch.setattr(network_access, "is_offline", lambda: True)
    monkeypatch.setattr(clones, "is_reachable", asked)
    (built,) = run(job)
    assert built.status == "unreachable"
    assert f"toy was not built: {url} is not in the bundle" in heard
    with pytest.raises(AssertionError, match=r"toy\.git"):  # the bundle has a mirror
        run(replace(job, mirrors={url: str(tmp_path / "toy.git")}))


def test_wheel_label_has_archs_only_with_device_code(tmp_path: Path) -> None:
    job = replace(ready(tmp_path, path="toy"), label="cu132.sm90.sm120")
    surface = AbiFingerprint("2.15.0", "13.2", "cp312", "", "", None, None, "1a")
    named = {code: format_local_label(job, surface, has_code=code) for code in (True, False)}
    assert named == {
        True: f"torch2.15.0.s{surface.name}.cu132.sm90.sm120",
        False: f"torch2.15.0.s{surface.name}.cu132",
    }
