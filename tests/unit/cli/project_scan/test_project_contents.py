"""What `torchyard init` finds in a project: extensions, submodules and environments."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tasks.cli.project_scan import setup_files
from tasks.cli.project_scan.git_submodules import parse_submodule_paths
from tasks.cli.project_scan.project_contents import ProjectContents, read_project_contents
from tasks.cli.project_scan.python_environments import find_environments
from tasks.cli.project_scan.setup_files import parse_cuda_modules
from tests.support.checkout import KNOWLEDGE
from tests.support.systems import linux_only, needs_links
from tests.support.user_projects import (
    SPLATTING_FOLDERS,
    format_setup,
    format_submodules,
    write_files,
    write_splatting_project,
)


def read_contents(root: Path) -> ProjectContents:
    return read_project_contents(root, KNOWLEDGE, {})


def list_lines(root: Path) -> list[str]:
    return [line for _, line in read_contents(root).describe()]


def test_splatting_project_has_known_extensions_and_empty_submodules(tmp_path: Path) -> None:
    contents = read_contents(write_splatting_project(tmp_path))
    assert [one.settings for one in contents.extensions] == [
        {"name": Path(folder).name, "path": folder} for folder in SPLATTING_FOLDERS
    ]
    assert contents.needs_submodules  # glm, of the rasterizer
    lines = [line for _, line in contents.describe()]
    assert "submodules/simple-knn: CUDA extension simple-knn" in lines
    assert (
        "environment.yml: Python 3.7.13, torch 1.12.1, torchvision 0.13.1, torchaudio 0.12.1, "
        "cudatoolkit 11.6"
    ) in lines
    assert lines[-1].startswith(f"{SPLATTING_FOLDERS[0]}/third_party/glm, SIBR_viewers are empty: ")
    assert "git submodule update --init --recursive" in lines[-1]


def test_empty_submodule_is_no_extension(tmp_path: Path) -> None:
    write_files(tmp_path, {".gitmodules": format_submodules("submodules/simple-knn")})
    assert list_lines(tmp_path)[0] == "no setup.py of a CUDA extension"
    assert "clone this repository with git" in list_lines(tmp_path)[1]  # an unpacked archive
    (tmp_path / ".git").mkdir()
    assert "submodules/simple-knn is empty: to fetch it, run git" in list_lines(tmp_path)[1]


def test_extensions_in_nested_folders_have_their_imports(tmp_path: Path) -> None:
    unnamed = format_setup("ray", "_ray").replace('name="ray"', "name=read_name()")
    write_files(
        tmp_path,
        {
            "gridencoder/setup.py": format_setup("gridencoder", "_gridencoder"),
            "gridencoder/third_party/more/setup.py": format_setup("more", "more._C"),
            "models/cuda/ray march/setup.py": unnamed,
            "setup.py": "from setuptools import setup\nsetup(name='program')\n",
            "build/lib/setup.py": format_setup("copied", "copied"),
            "own/pyvenv.cfg": "",
            "own/lib/setup.py": format_setup("installed", "installed"),
        },
    )
    assert [one.settings for one in read_contents(tmp_path).extensions] == [
        {"name": "gridencoder", "path": "gridencoder", "imports": ("_gridencoder",)},
        {"name": "ray-march", "path": "models/cuda/ray march", "imports": ("_ray",)},
    ]


def test_setup_file_below_its_source_gets_a_subdirectory(tmp_path: Path) -> None:
    nested = {
        "libs/tiny-cuda-nn/bindings/torch/setup.py": format_setup("tinycudann", "tinycudann._C"),
        "libs/fork/python/setup.py": format_setup("fork", "fork._C"),
        ".gitmodules": format_submodules("libs/fork"),
    }
    fork, known = read_contents(write_files(tmp_path, nested)).extensions
    assert (fork.path, fork.subdirectory, fork.folder) == (
        "libs/fork",
        "python",
        "libs/fork/python",
    )
    assert known.settings == {
        "name": "tiny-cuda-nn",
        "path": "libs/tiny-cuda-nn",
        "subdirectory": "bindings/torch",
    }


def test_second_extension_with_the_same_module_is_not_selected(tmp_path: Path) -> None:
    names = ("diff_gaussian_rasterization", "diff-gaussian-rasterization-w-depth")
    files = {f"{name}/setup.py": format_setup(name, "x") for name in names}
    contents = read_contents(write_files(tmp_path, files))
    assert [one.name for one in contents.extensions] == [names[1]]
    assert (
        "not selected: diff-gaussian-rasterization-w-depth installs the same package"
        in " ".join(line for _, line in contents.describe())
    )


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("from setuptools import setup\nsetup(name='CUDAExtension')", None),
        ("x = 1  # CUDAExtension('a', [])", None),
        ("import torch.utils.cpp_extension as ext\next.CUDAExtension('a.b', ['a.cu'])", ("a.b",)),
        ("from x import CUDAExtension as E\nE(name='a', sources=[])", ("a",)),
        ("E = CppExtension\nif cuda: E = CUDAExtension\nE(name, [])", ()),
        ("CppExtension('a', ['a.cpp'])", None),
        ("CppExtension('a', ['a.cpp', 'a.cu'])", ("a",)),
        ("CUDAExtension(name='not a module', sources=[])", ()),
        ("CUDAExtension('a', ['\\d'])", ("a",)),
        ("print 'Python 2'\nCUDAExtension('a', [])", ("a",)),
        ("print 'Python 2'\n# CUDAExtension('a', [])", None),
        (f"CUDAExtension('a', {'(' * 5000}", ("a",)),
        ("CUDAExtension('a')\0", ("a",)),
    ],
)
def test_cuda_modules_are_read_without_running_setup(
    text: str, modules: tuple[str, ...] | None
) -> None:
    assert parse_cuda_modules(text) == modules


@needs_links
def test_link_loop_and_unreadable_text_do_not_stop_the_search(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "a" / "setup.py").symlink_to(tmp_path / "a" / "setup.py")
    text = format_setup("latin", "latin._C").replace("import os", "# \xe9")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "setup.py").write_bytes(text.encode("latin-1"))
    (tmp_path / ".gitmodules").write_bytes(b"\xff\xfe[")
    assert [one.name for one in read_contents(tmp_path).extensions] == ["latin"]


def test_search_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "/".join("abcdefg")
    files = {f"{name}/setup.py": format_setup(name[0], name[0]) for name in ("b", "c", deep)}
    write_files(tmp_path, files)
    assert [one.name for one in read_contents(tmp_path).extensions] == ["b", "c"]
    for number in range(20):
        (tmp_path / "a" / "data" / str(number)).mkdir(parents=True)
    monkeypatch.setattr(setup_files, "MAX_FOLDERS", 10)
    assert [one.name for one in read_contents(tmp_path).extensions] == ["b", "c"]
    monkeypatch.setattr(setup_files, "MAX_SETUP_FILES", 1)
    assert [one.name for one in read_contents(tmp_path).extensions] == ["b"]


def test_submodule_paths_are_those_of_git() -> None:
    text = '# path = no\n[core]\npath = no\n[submodule "a b"]\n path = "a b"\n branch = x\n'
    text += '[submodule "c"]\n\tpath = c # old\n[submodule "d"]\npath = ../out\n[submodule "e"]\n'
    assert [path.as_posix() for path in parse_submodule_paths(text)] == ["a b", "c"]


def create_environment(folder: Path, mark: str = "pyvenv.cfg") -> Path:
    write_files(folder, {mark: "version = 3.12.4\n", "bin/python": ""})
    return folder


@linux_only
def test_environments_are_those_of_the_project_and_of_conda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, home = tmp_path / "project", tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    venv, own = create_environment(root / ".venv"), create_environment(root / "venv")
    (root / "env").mkdir(parents=True)  # a folder of the program, no environment
    conda = create_environment(home / "miniconda3/envs/gs", "conda-meta/python-3.8.1-h1.json")
    elsewhere = create_environment(tmp_path / "other/gs", "conda-meta/history")
    base = create_environment(tmp_path / "base", "condabin/conda")
    listing = f"{base}\n{conda}\n{elsewhere}\n"
    write_files(home, {".conda/environments.txt": listing})

    def list_pythons(**environ: str) -> list[str]:
        return [one.python for one in find_environments(root, "gs", own, environ)]

    expected = [
        *(".venv/bin/python", "~/miniconda3/envs/gs/bin/python"),
        str(elsewhere / "bin" / "python"),
    ]
    assert list_pythons() == expected
    assert list_pythons(CONDA_PREFIX=str(base)) == expected
    assert list_pythons(VIRTUAL_ENV=str(own)) == expected
    active = create_environment(tmp_path / "active")
    assert list_pythons(CONDA_PREFIX=str(active))[0] == str(active / "bin" / "python")
    assert list_pythons(CONDA_PREFIX=str(conda))[0] == expected[1]
    first, second, *_ = find_environments(root, "gs", own, {"VIRTUAL_ENV": str(venv)})
    assert str(first) == ".venv/bin/python: active environment in this project, Python 3.12.4"
    assert second.description == "Python 3.8.1"


def test_environment_of_torchyard_is_never_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(create_environment(tmp_path / ".venv")))
    contents = read_project_contents(tmp_path, KNOWLEDGE, {"VIRTUAL_ENV": sys.prefix})
    assert contents.environments == ()
    assert (True, ".venv: torchyard runs from it, so torch is not installed there") in [
        *contents.describe()
    ]


def test_conda_name_cannot_be_a_path(tmp_path: Path) -> None:
    create_environment(tmp_path / "gs", "conda-meta/history")
    assert find_environments(tmp_path, f"..{os.sep}gs", Path(sys.prefix), {}) == ()
