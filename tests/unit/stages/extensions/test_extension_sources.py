"""Where an extension's source is fetched with what: its own variables, and the compilers'."""

from __future__ import annotations

import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.digest import sha256_text
from tasks.effects import files, git, manifests
from tasks.effects.git import conflicts
from tasks.effects.network import offline
from tasks.effects.python import packages
from tasks.effects.python.packages import Download, download
from tasks.errors import BuildError, FetchError
from tasks.model import Layout
from tasks.settings.schema import Settings
from tasks.stages.deps.job import Deps, Program
from tasks.stages.env.job import Environment
from tasks.stages.extensions import action
from tasks.stages.extensions.action import run
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.known import complete
from tasks.stages.extensions.plan import plan
from tasks.stages.extensions.sources import edits_suffix, fetch
from tasks.stages.wheel.job import Surface
from tests.actionyard import CHOICE, script
from tests.checkout import KNOWLEDGE, Heard
from tests.systems import posix_only
from tests.toyextension import make_extension
from tests.unit.effects.git.test_git import commit
from tests.unit.effects.git.test_git import run as run_git

NONE = Program("", "")
DEPS = Deps("/v/python", "3.12.0", "1", None, "", None, None, NONE, NONE, NONE, NONE, None)


def test_the_setup_py_of_an_sdist_is_run_in_the_environment_of_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """causal-conv1d's ends in a NameError where it sees no CUDA_HOME."""
    layout = Layout(tmp_path, "p", tmp_path / "wheelhouse")
    asked = complete(Settings.model_validate({"extensions": ["causal-conv1d"]}), KNOWLEDGE)
    job = plan(asked.extensions[0], asked, layout, CHOICE, KNOWLEDGE).job
    files.own(layout.build)
    shared = Environment({"CUDA_HOME": "/cuda"}, {"PATH": ("/cuda/bin",)}, (), ":")
    manifests.publish(layout.manifest("extension-env"), shared)
    found: list[Download] = []

    def pretended(one: Download) -> Path:
        found.append(one)
        make_extension(tmp_path / "causal_conv1d-1.7.0")
        sdist = tmp_path / "causal_conv1d-1.7.0.tar.gz"
        with tarfile.open(sdist, "w:gz") as archive:
            archive.add(tmp_path / "causal_conv1d-1.7.0", "causal_conv1d-1.7.0")
        return sdist

    monkeypatch.setattr(packages, "download", pretended)
    tree, source = fetch(job, DEPS)
    assert (tree / "setup.py").is_file()
    assert source["sdist"] == "causal_conv1d-1.7.0.tar.gz"
    (one,) = found
    assert (one.requirement, one.sdist) == ("causal-conv1d==1.7.0", True)
    assert one.env is not None
    assert one.env["CUDA_HOME"] == "/cuda"
    assert one.env["CAUSAL_CONV1D_FORCE_BUILD"] == "TRUE"
    assert one.env["PATH"].startswith("/cuda/bin")


@pytest.mark.parametrize("kind", ["git", "path"])
def test_an_edited_source_gives_its_wheel_another_version(tmp_path: Path, kind: str) -> None:
    folder = make_extension(tmp_path / "toy")
    run_git(folder, "init", "-q")
    commit(folder)
    asked = {kind: str(folder)}
    clean = toy_job(tmp_path, asked)
    tree = Path(clean.clone) if kind == "git" else folder

    def suffix(job: ExtensionJob = clean) -> str:
        _, found = fetch(job, DEPS)
        return edits_suffix(job, found)

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


def test_a_folder_without_git_is_named_by_what_it_holds(tmp_path: Path) -> None:
    job = toy_job(tmp_path, {"path": str(make_extension(tmp_path / "toy"))})
    _, found = fetch(job, DEPS)
    assert edits_suffix(job, found) == f".d{sha256_text(found['digest'])[:6]}"


def toy_job(folder: Path, asked: dict[str, Any]) -> ExtensionJob:
    settings = Settings.model_validate({"extensions": [{"name": "toy", **asked}]})
    layout = Layout(folder, "p", folder / "wheelhouse")
    files.own(layout.build)
    job = plan(settings.extensions[0], settings, layout, CHOICE, KNOWLEDGE).job
    assert isinstance(job, ExtensionJob)
    return job


@posix_only
def test_a_download_has_the_environment_that_it_is_given(tmp_path: Path) -> None:
    python = script(tmp_path / "python", '#!/bin/sh\necho "home $CUDA_HOME" > "$OUT"/seen\n')
    landing = tmp_path / "landing"
    files.own(tmp_path / "build")
    one = Download(python, "a==1", "", tmp_path / "build" / "landing", tmp_path / "log", True)
    given = {"CUDA_HOME": "/cuda", "OUT": str(tmp_path / "build" / "landing")}
    assert download(replace(one, env=given)).read_text(encoding="utf-8") == "home /cuda\n"
    assert not landing.exists()


def ready(folder: Path, **listed: Any) -> ExtensionJob:
    """The job of an extension with that entry, and what it reads."""
    layout = Layout(folder, "p", folder / "wheelhouse")
    asked = complete(
        Settings.model_validate({"extensions": [{"name": "toy", **listed}]}), KNOWLEDGE
    )
    job: ExtensionJob = plan(asked.extensions[0], asked, layout, CHOICE, KNOWLEDGE).job
    files.own(layout.build)
    manifests.publish(layout.manifest("deps"), DEPS)
    surface = Surface("2.15.0", None, "cp312", "", "", None, None, "1")
    manifests.publish(layout.manifest("surface"), surface)
    manifests.publish(layout.manifest("extension-env"), Environment({}, {}, (), ":"))
    return job


@pytest.mark.parametrize("lacks", ["the sdist", "what its build imports"])
@pytest.mark.parametrize("optional", [True, False])
def test_an_sdist_that_no_index_gives_stops_the_build_unless_it_is_optional(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard, lacks: str, optional: bool
) -> None:
    job = ready(tmp_path, sdist="toy==1.0", optional=optional)

    def away(*_: object) -> None:
        raise FetchError("no such thing")

    if lacks == "the sdist":
        monkeypatch.setattr(packages, "download", away)
    else:
        monkeypatch.setattr(action, "prepare", away)
    if optional:
        (built,) = run(job)
        assert built.status == "unreachable"
        assert "toy was NOT built: no such thing" in "\n".join(heard)
    else:
        with pytest.raises(FetchError, match="no such thing"):
            run(job)


def test_a_folder_with_merge_conflicts_is_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = conflicts.Conflicts(("setup.py",), "git merge --abort")
    monkeypatch.setattr(conflicts, "find_conflicts", {tmp_path / "toy": found}.get)
    job = ready(tmp_path, path=str(tmp_path / "toy"))
    with pytest.raises(BuildError, match=r"^extensions \(toy\)\.path: .* conflicts: setup\.py"):
        run(job)


def test_a_folder_whose_repository_is_elsewhere_is_copied_as_it_is(tmp_path: Path) -> None:
    folder = make_extension(tmp_path / "toy")
    (folder / ".git").write_text("gitdir: ../.git/modules/toy\n", encoding="utf-8")
    tree, _ = fetch(ready(tmp_path, path=str(folder)), DEPS)
    assert (tree / "setup.py").is_file()


def test_offline_the_host_of_an_optional_extension_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    def asked(url: str) -> bool:
        raise AssertionError(url)

    url = "https://git.example/toy"
    job = ready(tmp_path, git=url, optional=True)
    monkeypatch.setattr(offline, "is_offline", lambda: True)
    monkeypatch.setattr(git, "reachable", asked)
    (built,) = run(job)
    assert built.status == "unreachable"
    assert f"toy was NOT built: {url} is not in the bundle" in heard
    with pytest.raises(AssertionError, match=r"toy\.git"):  # what is in the bundle lies here
        run(replace(job, mirrors={url: str(tmp_path / "toy.git")}))
