"""Extensions that were cloned without their submodules are found before a build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tasks.cli.commands import doctor
from tasks.core.check_ids import CheckId
from tasks.core.errors import TorchyardError
from tasks.core.project import Project
from tasks.doctor.check_result import CheckResult
from tasks.doctor.examine_host import build_probe_request, check_host
from tasks.doctor.host_facts import HostFacts, MissingSubmodules, ProbeRequest
from tasks.doctor.host_facts_io import read_host_facts
from tasks.system.files import write_atomic
from tests.support.checkout import KNOWLEDGE, Heard, opened, write
from tests.support.surroundings import LINUX, LINUX_HOST, profile_on

RAST = "diff-gaussian-rasterization"
GLM = '[submodule "third_party/glm"]\n\tpath = third_party/glm\n\turl = https://git.example/glm\n'
WANTED: frozenset[CheckId] = frozenset({"submodules"})


def find_missing(folder: Path, within: str = "") -> tuple[MissingSubmodules, ...]:
    own = (("toy", folder, folder / within),)
    found = read_host_facts(
        ProbeRequest(Project.of_checkout(folder), LINUX_HOST, (), build=folder, own=own), WANTED
    ).unfetched
    assert found is not None
    return found


def clone(folder: Path, gitmodules: str = GLM) -> Path:
    """Create a checkout as `git clone` leaves it, with an empty folder for each submodule."""
    folder = folder.resolve()
    write_atomic(folder / ".gitmodules", gitmodules)
    write_atomic(folder / ".git" / "HEAD", "ref: refs/heads/main\n")
    write_atomic(folder / "setup.py", "")
    (folder / "third_party" / "glm").mkdir(parents=True)
    return folder


def test_empty_and_missing_submodules_are_found(
    tmp_path: Path,
) -> None:
    tree = clone(tmp_path)
    glm = tree / "third_party" / "glm"
    (found,) = find_missing(tree)
    assert found == MissingSubmodules("toy", tree, tree, (glm,), cloned=True)
    glm.rmdir()
    assert find_missing(tree) == (found,)


def test_fetched_submodule_and_plain_folder_are_not_reported(tmp_path: Path) -> None:
    tree = clone(tmp_path / "toy")
    write_atomic(tree / "third_party" / "glm" / "glm.hpp", "")
    assert find_missing(tree) == ()
    (tmp_path / "plain").mkdir()
    assert find_missing(tmp_path / "plain") == find_missing(tmp_path / "away") == ()


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ("path = third_party/a b", ["third_party/a b"]),
        ('  PATH="third_party/quoted"  ; where it is', ["third_party/quoted"]),
        ("path = third_party/glm # of the CPU\r", ["third_party/glm"]),
        ("path = tools\n\tupdate = none", []),
        ("url = https://git.example/path = x", []),
    ],
)
def test_gitmodules_is_parsed_like_git_does(tmp_path: Path, section: str, found: list[str]) -> None:
    tree = clone(tmp_path, f'[core]\n\tbare = false\n[submodule "x"]\n\t{section}\n')
    folders = [folder for one in find_missing(tree) for folder in one.folders]
    assert folders == [tree / path for path in found]


def test_outer_work_tree_reports_only_submodules_of_extension(tmp_path: Path) -> None:
    """Like gaussian-splatting cloned without --recursive: the extensions are submodules themselves,
    and the viewers are not part of them.
    """
    paths = ("submodules/rast", "submodules/simple-knn", "SIBR_viewers")
    project = clone(tmp_path, "".join(f'[submodule "{p}"]\n\tpath = {p}\n' for p in paths))
    rast = project / "submodules" / "rast"
    rast.mkdir(parents=True)
    assert find_missing(rast) == (MissingSubmodules("toy", rast, project, (rast,), cloned=True),)
    clone(rast)
    glm = rast / "third_party" / "glm"
    assert find_missing(rast) == (MissingSubmodules("toy", rast, rast, (glm,), cloned=True),)
    inner, outer = find_missing(project, "submodules/rast")
    assert (inner.tree, inner.folders) == (rast, (glm,))
    assert (outer.tree, len(outer.folders)) == (project, 2)


def test_submodule_declared_by_outer_project_is_found(tmp_path: Path) -> None:
    project = clone(tmp_path, '[submodule "glm"]\n\tpath = rast/third_party/glm\n')
    rast = project / "rast"
    (rast / "third_party").mkdir(parents=True)
    (found,) = find_missing(rast)
    assert (found.tree, found.folders) == (project, (rast / "third_party" / "glm",))


def test_unpacked_archive_suggests_recursive_clone(tmp_path: Path) -> None:
    write_atomic(tmp_path / "zip" / ".gitmodules", GLM)
    (found,) = find_missing(tmp_path / "zip")
    assert not found.cloned
    assert "git clone --recursive" in check_submodules(found).todo


HERE = PurePosixPath("/proj/rast")
EMPTY = MissingSubmodules(RAST, HERE, HERE, (HERE / "third_party/glm",), cloned=True)


def check_submodules(one: MissingSubmodules, **more: Any) -> CheckResult:
    s = replace(LINUX, unfetched=(one,))
    extension = {"name": one.extension, "path": str(one.source), "imports": ["x"], **more}
    (found,) = check_host(s, profile_on(s, extensions=[extension]), KNOWLEDGE, WANTED)
    return found


def test_required_submodule_is_problem_with_update_command() -> None:
    found = check_submodules(EMPTY)
    assert (found.level, found.subject) == ("problem", RAST)
    assert "/proj/rast/third_party/glm is missing or empty" in found.seen
    assert found.todo == "  git -C /proj/rast submodule update --init --recursive"
    assert check_submodules(EMPTY, optional=True).level == "warning"


def test_possibly_unused_submodule_is_warning() -> None:
    assert check_submodules(replace(EMPTY, extension="toy")).level == "warning"
    other = replace(EMPTY, folders=(HERE / "third_party/docs",))
    assert check_submodules(other).level == "warning"
    many = replace(other, folders=tuple(HERE / f"third_party/{n}" for n in range(5)))
    assert "third_party/2 and 2 more are missing or empty" in check_submodules(many).seen


def test_extension_that_is_empty_submodule_is_problem() -> None:
    one = MissingSubmodules("toy", HERE, HERE.parent, (HERE,), cloned=True)
    assert check_submodules(one).level == "problem"


def test_folder_with_space_is_quoted_in_command() -> None:
    one = replace(EMPTY, tree=PurePosixPath("/my proj"))
    assert check_submodules(one).todo == '  git -C "/my proj" submodule update --init --recursive'


def test_only_user_folders_are_checked_for_submodules() -> None:
    clone = {"name": "c", "git": "https://git.example/c.git", "ref": "v1", "imports": ["c"]}
    own = {"name": "o", "path": "/src/o", "subdirectory": "python", "imports": ["o"]}
    asked = build_probe_request(
        Project.of_checkout(LINUX.root), LINUX_HOST, profile_on(LINUX, extensions=[clone, own])
    )
    assert asked.own == (("o", PurePosixPath("/src/o"), PurePosixPath("/src/o/python")),)


@pytest.mark.parametrize("ignored", [False, True])
def test_missing_submodules_are_reported_before_first_stage(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch, ignored: bool
) -> None:
    ignore = "doctor: {ignore: [submodules, python]}\n" if ignored else ""

    def gate(name: str) -> None:
        def around(asked: ProbeRequest, _: object) -> HostFacts:
            one = replace(EMPTY, extension=name)
            return replace(LINUX, host=asked.host, root=asked.project.root, unfetched=(one,))

        monkeypatch.setattr(doctor, "read_host_facts", around)
        write(yard, f"{ignore}extensions: [{{name: {name}, path: rast, imports: [x]}}]\n")
        doctor.check_before_build(opened(yard))

    gate("toy")
    assert ("git -C /proj/rast submodule update" in heard.text) != ignored
    if ignored:
        gate(RAST)
    else:
        with pytest.raises(TorchyardError, match="1 problem: submodules"):
            gate(RAST)
