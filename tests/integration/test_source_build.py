"""From a tree to an installed wheel and an extension, and again after a pull: as a person does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tasks.system import files
from tasks.system.files import read_artifact
from tasks.wheels.wheel_archive_io import verify_wheel
from tests.integration.conftest import commit, git, installed, source_profile
from tests.support.ninjalog import made, products
from tests.support.sharedlibrary import linux
from tests.support.toyextension import make_extension
from tests.support.yard import Yard

pytestmark = pytest.mark.integration


def test_a_tree_becomes_an_installed_torch_and_then_only_what_changed_is_done(
    yard: Yard, tree: Path, extension: Path
) -> None:
    yard.profile(**source_profile(tree, extension))
    out = yard.must("build")
    head = git(tree, "rev-parse", "HEAD")
    version = f"2.6.0+cpu.g{head[:7]}"
    assert installed(yard, "import torch; print(torch.__version__)") == version
    assert installed(yard, "import toyext; print(toyext.answer())") == "42"
    assert "strategy source" in out
    assert yard.manifest("extensions:toy")["status"] == "built"

    again = yard.must()
    assert "Up to date" in again
    assert "Compiled" not in again

    (tree / "docs" / "README.md").write_text("More words.\n", encoding="utf-8")
    commit(tree, "words only")
    wheel = yard.manifest("wheel")
    docs = yard.must("build")
    assert yard.manifest("wheel") == wheel
    assert "Built extensions:toy" not in docs

    source = tree / "torch" / "__init__.py"
    source.write_text(source.read_text(encoding="utf-8") + "\nADDED = 1\n", encoding="utf-8")
    newer = commit(tree, "a Python change")
    assert "installed only the changes: 2 files" in yard.must("build")  # and torch/version.py
    assert yard.manifest("wheel")["version"] == f"2.6.0+cpu.g{newer[:7]}"
    assert installed(yard, "import torch; print(torch.ADDED)") == "1"


def test_a_changed_library_comes_into_the_wheel_and_the_environment(yard: Yard, tree: Path) -> None:
    yard.profile(**source_profile(tree))
    yard.must("build")
    linked = made(tree / "build")
    source = tree / "c10" / "core.cpp"
    source.write_text(source.read_text(encoding="utf-8").replace("42;", "43;"), encoding="utf-8")
    assert "installed only the changes: 2 files" in yard.must("build")
    # and not libtorch_cpu.so, which uses it
    assert products(linked, made(tree / "build")) == {"core.cpp.o", "libc10.so"}
    ask = "import torch; print(torch._c10.c10_answer())"
    assert installed(yard, ask) == "43"
    assert not (tree / "build" / "bdist.torchyard").exists()
    wheel = yard.folder / "wheelhouse" / yard.manifest("wheel")["artifact"]["name"]
    verify_wheel(wheel, yard.manifest("deps")["python_version"])
    (Path(yard.manifest("wheel")["folder"]) / "cuda.py").unlink()  # then all of it is installed
    source.write_text(source.read_text(encoding="utf-8").replace("43;", "44;"), encoding="utf-8")
    assert "installed only the changes" not in yard.must("build")
    assert installed(yard, ask) == "44"


OWN_BDIST = """
from setuptools.command.bdist_wheel import bdist_wheel


class Plain(bdist_wheel):
    user_options = [entry for entry in bdist_wheel.user_options if "comp" not in entry[0]]


setup(
    cmdclass={"bdist_wheel": Plain},
"""


@pytest.mark.long
def test_a_tree_whose_wheel_command_knows_no_options_makes_an_ordinary_wheel(
    yard: Yard, tree: Path
) -> None:
    setup = tree / "setup.py"
    text = setup.read_text(encoding="utf-8")
    setup.write_text(text.replace("\nsetup(\n", OWN_BDIST), encoding="utf-8")
    yard.profile(**source_profile(tree))
    yard.must("build")
    assert "not recognized" in (yard.build / "logs" / "wheel.log").read_text(encoding="utf-8")
    assert installed(yard, "import torch; print(torch.add(1, 1))") == "2.0"


@pytest.mark.long
def test_an_edit_that_is_not_committed_is_built_and_survives(yard: Yard, tree: Path) -> None:
    yard.profile(**source_profile(tree))
    yard.must("build")
    source = tree / "torch" / "__init__.py"
    edited = source.read_text(encoding="utf-8") + "\nMINE = 7\n"
    source.write_text(edited, encoding="utf-8")
    yard.must("build")
    assert installed(yard, "import torch; print(torch.MINE)") == "7"
    assert ".d" in yard.manifest("wheel")["version"]
    assert source.read_text(encoding="utf-8") == edited


def test_an_edited_extension_is_built_again_and_a_broken_one_leaves_the_old_installed(
    yard: Yard, tree: Path, extension: Path
) -> None:
    yard.profile(**source_profile(tree, extension))
    yard.must("build")
    make_extension(extension, "43", switches=extension.parent)
    assert "Built extensions:toy" in yard.must("build")
    assert installed(yard, "import toyext; print(toyext.answer())") == "43"

    make_extension(extension, "nonsense", switches=extension.parent)
    code, out = yard.doit("build")
    assert code == 1
    assert "error: " in out
    assert "nonsense" in out
    assert "extension-toy.log:" in out
    assert "Traceback" not in out
    assert installed(yard, "import toyext; print(toyext.answer())") == "43"


LOST = """
add_library(lost SHARED lost/lost.cpp)
target_link_libraries(torch_cpu PRIVATE lost)
"""


@linux
@pytest.mark.long
def test_a_wheel_that_needs_what_is_nowhere_is_not_installed(yard: Yard, tree: Path) -> None:
    yard.profile(**source_profile(tree))
    assert "2 libraries" in yard.must("build")
    linked = yard.manifest("wheel-libraries")["libraries"]["torch/lib/libtorch_cpu.so"]
    assert linked["needed"]["libc10.so"] == "wheel"
    before = installed(yard, "import torch; print(torch.__version__)")

    (tree / "lost").mkdir()
    (tree / "lost" / "lost.cpp").write_text("double lost() { return 0; }\n", encoding="utf-8")
    for name, old, new in (
        ("CMakeLists.txt", "\ninstall(TARGETS", f"{LOST}\ninstall(TARGETS"),
        ("aten/add.cpp", 'extern "C"', 'double lost();\n\nextern "C"'),
        ("aten/add.cpp", "one + other", "lost() + one + other"),
    ):
        path = tree / name
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
    code, out = yard.doit("build")
    assert code == 1
    told = "liblost.so (needed by torch/lib/libtorch_cpu.so) is not on this machine"
    assert told in " ".join(out.split())
    assert "Traceback" not in out
    assert not (yard.build / "wheel.json").exists()
    assert installed(yard, "import torch; print(torch.__version__)") == before
    assert installed(yard, "import torch; print(torch.add(1, 1))") == "2.0"

    git(tree, "reset", "-q", "--hard")
    (tree / "lost" / "lost.cpp").unlink()
    assert "the same content" in yard.must("build")


@pytest.mark.long
def test_a_switch_that_the_tree_does_not_know_is_told(yard: Yard, tree: Path) -> None:
    profile = source_profile(tree)
    yard.profile(**profile, build={"flags": {"USE_LUOD": True, "USE_LOUD": True}, "target": "c10"})
    out = yard.must("build")
    assert "this PyTorch tree does not use USE_LUOD" in out


@pytest.mark.long
def test_a_torch_that_does_not_import_is_told_and_tried_again(yard: Yard, tree: Path) -> None:
    yard.profile(**source_profile(tree))
    source = tree / "torch" / "__init__.py"
    good = source.read_text(encoding="utf-8")
    source.write_text(f"{good}\nraise ImportError('the cause of it')\n", encoding="utf-8")
    for _ in range(2):
        code, out = yard.doit("build")
        assert code == 1
        assert "does not import: ImportError: the cause of it" in " ".join(out.split())
        assert "wheel.log:" in out
        names = ("wheel", "surface", "wheel-content")
        assert not [name for name in names if (yard.build / f"{name}.json").exists()]
        assert not list((yard.folder / "wheelhouse").glob("*.whl*"))

    source.write_text(good, encoding="utf-8")
    yard.must("build")
    version = yard.manifest("wheel")["version"]
    assert installed(yard, "import torch; print(torch.__version__)") == version
    assert "Up to date" in yard.must("build")


@pytest.mark.long
def test_a_torch_that_does_not_import_gives_way_to_the_one_before(yard: Yard, tree: Path) -> None:
    yard.profile(**source_profile(tree))
    yard.must("build")
    version = installed(yard, "import torch; print(torch.__version__)")
    source = tree / "torch" / "__init__.py"
    good = source.read_text(encoding="utf-8")
    source.write_text(f"{good}\nraise ImportError('the cause of it')\n", encoding="utf-8")
    for _ in range(2):
        assert yard.doit("build")[0] == 1
        assert installed(yard, "import torch; print(torch.__version__)") == version
    source.write_text(good, encoding="utf-8")
    yard.must("build")
    assert yard.manifest("wheel")["version"] == version


@pytest.mark.long
def test_another_local_version_renames_the_wheel_and_the_commit_alone_does_not(
    yard: Yard, tree: Path
) -> None:
    yard.profile(**source_profile(tree))
    yard.must("build")
    yard.profile(**source_profile(tree), wheel={"local_version": "mine"})
    yard.must("build")
    assert yard.manifest("wheel")["version"] == "2.6.0+mine"
    assert installed(yard, "import torch; print(torch.__version__)") == "2.6.0+mine"
    yard.profile(**source_profile(tree))
    yard.must("build")
    assert yard.manifest("wheel")["version"].startswith("2.6.0+cpu.g")


@pytest.mark.long
def test_a_wheel_that_another_profile_replaced_is_not_taken_for_ours(
    yard: Yard, tree: Path, tmp_path: Path
) -> None:
    yard.profile(**source_profile(tree))
    yard.must("build")
    name = yard.manifest("wheel")["artifact"]["name"]
    kept = yard.folder / "wheelhouse" / name
    kept.write_bytes(kept.read_bytes() + b"another")
    yard.must("clean")
    assert "the same content" not in yard.must("build")
    assert yard.manifest("wheel")["artifact"]["sha256"] == read_artifact(kept).sha256


@pytest.mark.long
def test_validate_checks_what_it_can_and_says_what_it_did_not_run(yard: Yard, tree: Path) -> None:
    yard.profile(**source_profile(tree), validation={"only": ["import", "version", "device"]})
    yard.must("build")
    out = yard.must("validate")
    states = {check["name"]: check["status"] for check in yard.manifest("validate")["checks"]}
    assert states == {"import": "passed", "version": "passed", "device": "not run"}
    assert "not run" in out


PROGRAM = """
#include <c10/core.h>
#include <iostream>
int main() { std::cout << "answer " << c10_answer() << std::endl; return c10_answer() != 42; }
"""


@pytest.mark.long
def test_the_libraries_alone_become_a_prefix_that_find_package_accepts(
    yard: Yard, tree: Path
) -> None:
    profile = source_profile(tree)
    profile["build"] = {"backend": "cmake", "type": "Debug"}
    # the toy tree has no ATen for the program that real libraries are tried with
    (yard.folder / "templates" / "libtorch" / "main.cpp").write_text(PROGRAM, encoding="utf-8")
    yard.profile(**profile)
    yard.must("build")
    out = yard.must("validate")
    wheel = yard.manifest("wheel")
    assert wheel["kind"] == "libtorch"
    assert Path(wheel["prefix"], "share", "cmake", "Torch", "TorchConfig.cmake").is_file()
    assert (yard.folder / "wheelhouse" / wheel["artifact"]["name"]).is_file()
    assert "passed" in out


@pytest.mark.long
def test_a_tree_in_which_another_profile_is_at_work_is_left_alone(yard: Yard, tree: Path) -> None:
    yard.profile(**source_profile(tree))
    with files.lock_folder(tree / "build"):
        code, out = yard.doit("build")
    assert code == 1
    assert f"{tree / 'build'}: another torchyard run (process {os.getpid()}) is using this" in out
    assert not (tree / "build" / "CMakeCache.txt").exists()
    yard.must("build")


@pytest.mark.long
def test_clean_withdraws_claims_and_keeps_work(yard: Yard, tree: Path) -> None:
    yard.profile(**source_profile(tree))
    yard.must("build")
    yard.must("clean")
    assert not (yard.build / "wheel.json").exists()
    assert (yard.build / "venv").is_dir()
    yard.must("build")
    assert (yard.build / "wheel.json").exists()


@pytest.mark.long
def test_purge_removes_what_is_ours_and_nothing_else(yard: Yard, tree: Path) -> None:
    yard.profile(**source_profile(tree))
    yard.must("build")
    assert "would remove" in yard.must("purge")
    assert yard.build.is_dir()
    yard.must("purge", "--yes")
    assert not yard.build.exists()
    assert (tree / "CMakeLists.txt").is_file()


@pytest.mark.long
def test_what_a_persons_pip_took_away_is_put_back(yard: Yard, tree: Path, extension: Path) -> None:
    yard.profile(**source_profile(tree, extension))
    yard.must("build")
    python = yard.manifest("wheel")["python"]
    for name in ("toyext", "torch"):
        remove = [python, "-m", "pip", "uninstall", "-q", "-y", name]
        subprocess.run(remove, check=True, capture_output=True)
        assert "Up to date" not in yard.must("build")
        assert installed(yard, "import torch, toyext; print(toyext.answer())") == "42"
    assert "Up to date" in yard.must("build")


@pytest.mark.long
def test_another_torch_in_an_existing_interpreter_is_seen(
    yard: Yard, tree: Path, extension: Path, tmp_path: Path
) -> None:
    yard.profile(**source_profile(tree))
    yard.must("build")
    made = yard.manifest("wheel")
    other = Yard(tmp_path / "other")
    listed = [{"name": "toy", "path": str(extension), "imports": ["toyext"]}]
    existing = {"target": {"gpus": []}, "torch": {"strategy": "existing"}, "extensions": listed}
    other.profile(python=made["python"], **existing)
    other.must("build")
    assert other.manifest("wheel")["version"] == made["version"]
    version = Path(made["folder"]) / "version.py"
    version.write_text(
        version.read_text(encoding="utf-8").replace(made["version"], "2.7.0"), encoding="utf-8"
    )
    assert "Built extensions:toy" in other.must("build")
    assert other.manifest("wheel")["version"] == "2.7.0"
    version.unlink()
    code, out = other.doit("build")
    assert code == 3
    assert "has no torch" in out
