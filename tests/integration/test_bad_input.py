"""What a person sees when something is wrong: what, where, what to do; never a traceback."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.integration.conftest import git, source_profile
from tests.support.toyextension import make_extension
from tests.support.yard import Yard

pytestmark = pytest.mark.integration

OFFLINE = [
    ("target: {gpuss: auto}", 'target.gpuss: unknown key; did you mean "gpus"?'),
    ("build: {jobs: many}", 'build.jobs: "many" is not accepted'),
    ('target: {gpus: ["RTX 5900"]}', '"RTX 5900" is not a known GPU'),
    ("python: 3.10", 'quote it: "3.10"'),
    ("python: !!python/object:os.system x", "the YAML tag"),
    ('{target: {gpus: ["12.0"]}, toolkit: {version: "12.4"}}', "12.8 is the first that can"),
    ("{torch: {strategy: source}, source: {path: /nowhere}}", "source.path"),
    ("source: {path: .}", "is not the source tree of PyTorch"),
    ("extensions: [{name: a, path: nowhere}]", "nowhere does not exist"),
    ("extensions: [{name: a, sdist: simple-knn}]", "sdist"),
    ("extensions: [{name: a, sdist: simple-knn==1.0}]", "a package of another project"),
    (
        '{torch: {strategy: prebuilt, version: "2.6.0"}, target: {gpus: ["12.0"]}}',
        "newest arch is 9.0",
    ),
    ("torch: {strategy: existing}", "has no torch"),
]


@pytest.mark.parametrize(("profile", "message"), OFFLINE, ids=[text for text, _ in OFFLINE])
def test_what_can_be_seen_offline_is_exit_3_before_anything_runs(
    yard: Yard, profile: str, message: str
) -> None:
    (yard.folder / "config" / "profiles" / "trial.yaml").write_text(profile, encoding="utf-8")
    code, out = yard.doit("build")
    assert code == 3, out
    assert message in out
    assert "Traceback" not in out
    assert not yard.build.exists()


def test_settings_and_doctor_open_a_broken_profile(yard: Yard) -> None:
    yard.profile(target={"gpuss": "auto"})
    for helper in ("settings", "doctor"):
        code, out = yard.doit(helper, "--json", str(yard.folder / "out.json"))
        assert code == 1, out
        assert 'did you mean "gpus"' in " ".join(out.split())
        assert (yard.folder / "out.json").is_file()


def test_no_such_profile_names_those_there_are(yard: Yard) -> None:
    code, out = yard.doit("list")
    assert code == 3
    assert 'there is no profile "trial"' in out
    assert "quickstart" in out


def test_a_ref_that_is_not_there_is_exit_1_and_what_was_built_stays(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    extension = make_extension(tmp_path / "repository")
    git(extension, "init", "-q", "-b", "main")
    git(extension, "add", "-A")
    git(extension, "commit", "-q", "-m", "first")
    profile = source_profile(tree)
    profile["extensions"] = [{"name": "toy", "git": str(extension), "ref": "v9"}]
    yard.profile(**profile)
    code, out = yard.doit("build")
    assert code == 1
    assert "v9" in out
    assert "Traceback" not in out
    assert (yard.build / "wheel.json").exists()
    profile["extensions"] = [{"name": "toy", "git": str(extension), "ref": "main"}]
    yard.profile(**profile)
    yard.must("build")
    assert yard.manifest("extensions:toy")["source"]["commit"] == git(
        extension, "rev-parse", "HEAD"
    )


def test_a_release_that_the_index_lacks_is_exit_1(yard: Yard, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    yard.profile(
        target={"gpus": []},
        torch={"strategy": "prebuilt", "index": str(tmp_path / "wheels"), "version": "2.15.0"},
    )
    code, out = yard.doit("build")
    assert code == 1
    assert "torch==2.15.0" in out
    assert "the index has no such version" in out
    assert "Traceback" not in out


def test_an_index_that_does_not_answer_is_told_from_one_without_the_release(yard: Yard) -> None:
    yard.profile(
        target={"gpus": []},
        torch={"strategy": "prebuilt", "index": "http://127.0.0.1:9/simple", "version": "2.15.0"},
    )
    code, out = yard.doit("build", env={"PIP_RETRIES": "1"})
    assert code == 1
    assert "the package index did not answer" in out


def test_an_archive_that_would_write_outside_is_refused(yard: Yard, tmp_path: Path) -> None:
    archive = tmp_path / "pytorch.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("pytorch/setup.py", "")
        made.writestr("pytorch/../../escaped", "")
    yard.profile(
        target={"gpus": []},
        torch={"strategy": "source", "version": "2.6.0"},
        source={"tarball": str(archive)},
    )
    code, out = yard.doit("build")
    assert code == 1
    assert "escaped" in out
    assert not (yard.folder / "escaped").exists()


def test_a_tarball_with_another_sha256_is_refused(yard: Yard, tmp_path: Path) -> None:
    archive = tmp_path / "pytorch.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("pytorch/setup.py", "")
    yard.profile(
        target={"gpus": []},
        torch={"strategy": "source", "version": "2.6.0"},
        source={"tarball": str(archive), "sha256": "0" * 64},
    )
    code, out = yard.doit("build")
    assert code == 1
    assert "sha256" in out


def test_no_compiler_is_named_with_the_command_that_adds_one(yard: Yard, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("git", "python3", "sh", "env"):
        (programs / name).symlink_to(shutil.which(name) or os.devnull)
    asked = {"target": {"gpus": []}, "torch": {"strategy": "prebuilt"}}
    toy = {"name": "toy", "path": str(make_extension(tmp_path / "extension"))}
    yard.profile(**asked, extensions=[toy])
    code, out = yard.doit("build", env={"PATH": str(programs)})
    assert code == 1
    assert "this machine has no C++ compiler" in out
    assert "apt install build-essential" in out
    yard.profile(**asked)
    code, out = yard.doit("deps", env={"PATH": str(programs)})
    assert code == 0, f"nothing is compiled, and deps asks for a compiler: {out}"


def test_an_optional_extension_is_left_out_loudly_and_tried_again(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    later = tmp_path / "later"
    profile = source_profile(tree)
    profile["extensions"] = [{"name": "toy", "git": str(later), "ref": "main", "optional": True}]
    yard.profile(**profile)
    out = yard.must("build")
    assert "toy was not built" in out
    assert yard.manifest("extensions:toy")["status"] == "unreachable"
    make_extension(later)
    git(later, "init", "-q", "-b", "main")
    git(later, "add", "-A")
    git(later, "commit", "-q", "-m", "first")
    yard.must("build")
    assert yard.manifest("extensions:toy")["status"] == "built"


@pytest.mark.long
def test_an_optional_extension_that_was_reached_and_does_not_compile_fails(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    broken = make_extension(tmp_path / "broken", "nonsense")
    git(broken, "init", "-q", "-b", "main")
    git(broken, "add", "-A")
    git(broken, "commit", "-q", "-m", "first")
    profile = source_profile(tree)
    profile["extensions"] = [{"name": "toy", "git": str(broken), "ref": "main", "optional": True}]
    yard.profile(**profile)
    code, out = yard.doit("build")
    assert code == 1
    assert "nonsense" in out


def test_a_word_that_doit_would_ignore_is_refused(yard: Yard) -> None:
    yard.profile(target={"gpus": []})
    code, out = yard.doit("list", "prfile=cpu")
    assert code == 3
    assert '"prfile=cpu" is not an argument of doit' in out
    assert "profile=cpu" in out
