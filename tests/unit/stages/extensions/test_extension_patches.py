"""The user's patches are applied to the copy of an extension's source with git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tasks.core.deps_model import DepsManifest, Program
from tasks.core.errors import TorchyardError
from tasks.core.model import Layout
from tasks.core.project import Project
from tasks.settings.schema import parse_settings
from tasks.stages.extensions.extension_checks_io import check_extensions
from tasks.stages.extensions.extension_sources_io import fetch_source
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.extensions.plan import plan_extension
from tasks.system import files
from tests.support.actionyard import CHOICE
from tests.support.checkout import KNOWLEDGE
from tests.support.systems import needs_git
from tests.support.toyextension import make_extension

pytestmark = needs_git
NONE = Program("", "")
DEPS = DepsManifest("", "3.12.0", "1", None, "", None, None, NONE, NONE, NONE, NONE, None)
FIRST = """\
--- a/toyext/toy.c
+++ b/toyext/toy.c
@@ -1,3 +1,3 @@
-#define ANSWER 42
+#define ANSWER 43
\x20
 #include <Python.h>
"""
SECOND = FIRST.replace("ANSWER 43", "ANSWER 44").replace("ANSWER 42", "ANSWER 43")
NEW_FILE = """\
--- /dev/null
+++ b/toyext/more.h
@@ -0,0 +1 @@
+#define MORE 1
"""
FAR = """\
--- a/toyext/toy.c
+++ b/toyext/toy.c
@@ -1,2 +1,2 @@
-#define ANSWER 42
+#define ANSWER 43
\x20
@@ -5,1 +5,1 @@
-static struct NoSuchThing methods;
+static int methods;
"""


def job(folder: Path, *patches: str, git: bool = False) -> ExtensionJob:
    """Return a job for the extension toy, in a folder or a repository, with these patches."""
    source = make_extension(folder / "toy")
    place = {"git": source.as_uri(), "ref": "HEAD"} if git else {"path": "toy"}
    if git:
        _commit(source)
    names = [f"{number}.patch" for number, _ in enumerate(patches)]
    for name, text in zip(names, patches, strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    listed = [{"name": "toy", **place, "patches": names}]
    settings = parse_settings({"extensions": listed})
    check_extensions(settings, Project.of_checkout(folder))
    layout = Layout(Project.of_checkout(folder), "p", folder / "wheelhouse")
    files.create_owned_folder(layout.build)
    made = plan_extension(settings.extensions[0], settings, layout, CHOICE, KNOWLEDGE).job
    assert isinstance(made, ExtensionJob)
    return made


def _commit(tree: Path) -> None:
    for argv in (["init", "-q"], ["add", "."], ["commit", "-qm", "toy"]):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *identity, *argv], cwd=tree, check=True, capture_output=True)


def answer(tree: Path) -> str:
    return (tree / "toyext" / "toy.c").read_text(encoding="utf-8").splitlines()[0]


@pytest.mark.parametrize("git", [False, True], ids=["path", "git"])
def test_patches_are_applied_in_order_to_copy_only(tmp_path: Path, git: bool) -> None:
    made = job(tmp_path, FIRST, SECOND, NEW_FILE, git=git)
    tree, source = fetch_source(made, DEPS)
    assert answer(tree) == "#define ANSWER 44"
    assert (tree / "toyext" / "more.h").is_file()
    assert answer(tmp_path / "toy") == "#define ANSWER 42"
    digests = [files.read_artifact(patch).sha256 for patch in made.patches]
    assert source["patches"].split(", ") == digests
    again, same = fetch_source(made, DEPS)
    assert (answer(again), same) == ("#define ANSWER 44", source)


def test_source_record_without_patches_is_unchanged(tmp_path: Path) -> None:
    assert "patches" not in fetch_source(job(tmp_path), DEPS)[1]


def test_failing_patch_is_reported_with_file_and_hunk(tmp_path: Path) -> None:
    made = job(tmp_path, NEW_FILE, FAR)
    with pytest.raises(TorchyardError) as error:
        fetch_source(made, DEPS)
    assert error.value.location == f"extensions (toy).patches: {tmp_path / '1.patch'}"
    assert error.value.message == (
        "1.patch does not apply to the source of toy: toyext/toy.c, hunk 2 (@@ -5,1 +5,1 @@)"
    )
    assert str(made.log) in error.value.hint


def test_patch_for_other_project_is_reported_with_git_message(tmp_path: Path) -> None:
    made = job(tmp_path, FIRST.replace("toyext/toy.c", "other/file.c"))
    with pytest.raises(TorchyardError, match=r"other/file\.c: No such file or directory"):
        fetch_source(made, DEPS)


def test_invalid_patch_is_reported(tmp_path: Path) -> None:
    made = job(tmp_path, "not a patch\n")
    with pytest.raises(TorchyardError, match=r"0\.patch does not apply to .* toy: No valid"):
        fetch_source(made, DEPS)


def test_missing_patch_is_refused_at_load(tmp_path: Path) -> None:
    make_extension(tmp_path / "toy")
    listed = [{"name": "toy", "path": "toy", "patches": ["gone.patch"]}]
    with pytest.raises(TorchyardError) as error:
        check_extensions(parse_settings({"extensions": listed}), Project.of_checkout(tmp_path))
    assert str(error.value) == (
        f"extensions.0 (toy).patches: the patch {tmp_path / 'gone.patch'} does not exist\n"
        "  → correct the path"
    )


def test_patch_is_stage_input(tmp_path: Path) -> None:
    made = job(tmp_path, FIRST)
    settings = {"extensions": [{"name": "toy", "path": "toy", "patches": ["0.patch"]}]}
    config = parse_settings(settings)
    layout = Layout(Project.of_checkout(tmp_path), "p", tmp_path / "wheelhouse")
    stage = plan_extension(config.extensions[0], config, layout, CHOICE, KNOWLEDGE)
    assert set(made.patches) <= set(stage.inputs)
    assert stage.fingerprint["patches"] == [str(tmp_path / "0.patch")]
    bare = parse_settings({"extensions": [{"name": "toy", "path": "toy"}]})
    assert (
        "patches"
        not in plan_extension(bare.extensions[0], bare, layout, CHOICE, KNOWLEDGE).fingerprint
    )


def test_tree_inside_other_repository_is_patched(tmp_path: Path) -> None:
    """Without precautions, git resolves paths from the root of the enclosing repository."""
    made = job(tmp_path, FIRST)
    _commit(tmp_path)
    tree, _ = fetch_source(made, DEPS)
    assert answer(tree) == "#define ANSWER 43"
