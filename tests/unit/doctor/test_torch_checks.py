"""Compiler checks of torch's cpp_extension are parsed from its source and run before a build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.core.check_ids import ALL_CHECK_IDS
from tasks.core.model import InstalledTorch, Interpreter
from tasks.core.project import Project
from tasks.doctor.check_result import CheckResult
from tasks.doctor.examine_host import build_probe_request, check_host
from tasks.doctor.host_facts import BuildTorch, HostFacts, ProbeRequest, Tool
from tasks.doctor.host_facts_io import read_host_facts
from tasks.knowledge.cpp_extension import (
    CPP_EXTENSION_PATH,
    SKIP_CHECK_VARIABLE,
    CppExtension,
    VersionBounds,
    is_check_disabled,
    parse_cpp_extension,
)
from tasks.system.files import write_atomic
from tests.support.checkout import KNOWLEDGE, RELEASE
from tests.support.situations import ASKED_2_11, CUDA_12_8
from tests.support.surroundings import CL, EXTENSION, LINUX, LINUX_HOST, SAYS, WINDOWS, profile_on

# Shortened torch/utils/cpp_extension.py of three releases
TORCH_2_6 = """
MINIMUM_GCC_VERSION = (5, 0, 0)
MINIMUM_MSVC_VERSION = (19, 0, 24215)

VersionRange = Tuple[Tuple[int, ...], Tuple[int, ...]]
VersionMap = Dict[str, VersionRange]
# The second value is the exclusive(!) upper bound, i.e. min <= version < max
CUDA_GCC_VERSIONS: VersionMap = {
    '11.0': (MINIMUM_GCC_VERSION, (10, 0)),
    '11.7': ((6, 0, 0), (12, 0)),
}

MINIMUM_CLANG_VERSION = (3, 3, 0)
CUDA_CLANG_VERSIONS: VersionMap = {
    '11.1': (MINIMUM_CLANG_VERSION, (11, 0)),
    '11.7': (MINIMUM_CLANG_VERSION, (14, 0)),
}
BUILT_FROM_SOURCE_VERSION_PATTERN = re.compile(r'\\d+\\.\\d+\\.\\d+\\w+\\+\\w+')

def append_std17_if_no_std_present(cflags) -> None:
    '''Appends -std=c++17 where there is none.'''
    cpp_flag = cpp_flag_prefix + 'c++17'
    cflags = cflags + ['/std:c++17'] if IS_WINDOWS else ['-std=c++17']
"""
TORCH_2_11 = TORCH_2_6.replace(
    "    '11.7': ((6, 0, 0), (12, 0)),\n",
    "    '12.8': ((6, 0, 0), (14, 0)),\n    '13.0': ((6, 0, 0), (16, 0)),\n",
)
TORCH_2_15 = """
MINIMUM_GCC_VERSION = (5, 0, 0)
MINIMUM_MSVC_VERSION = (19, 20, 0)
CUDA_GCC_VERSIONS: VersionMap = {
    '12.8': ((6, 0, 0), (15, 0)),
    '13.0': ((6, 0, 0), (16, 0)),
}
CUDA_CLANG_VERSIONS: VersionMap = {
    '12.8': ((7, 0), (19, 0)),
}
BUILT_FROM_SOURCE_VERSION_PATTERN = re.compile(r'\\d+\\.\\d+\\.\\d+\\w+\\+\\w+')
cflags = common_cflags + ['-fPIC', '-std=c++20'] + extra_cflags
"""


def test_compiler_tables_of_torch_releases_are_parsed() -> None:
    old, strict, new = map(parse_cpp_extension, (TORCH_2_6, TORCH_2_11, TORCH_2_15))
    assert old.gcc == {
        "11.0": VersionBounds("5.0.0", "10.0"),
        "11.7": VersionBounds("6.0.0", "12.0"),
    }
    assert old.clang["11.1"] == VersionBounds("3.3.0", "11.0")
    assert strict.gcc["12.8"] == VersionBounds("6.0.0", "14.0")
    assert new.gcc["12.8"] == VersionBounds("6.0.0", "15.0")
    assert (old.least_msvc, new.least_msvc, new.least_gcc) == ("19.0.24215", "19.20.0", "5.0.0")
    assert (old.standard, strict.standard, new.standard) == (17, 17, 20)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def (",
        "a\0b",
        "CUDA_GCC_VERSIONS = bounds()\nMINIMUM_GCC_VERSION = '5'",
        "CUDA_GCC_VERSIONS = {'12.8': 14, 12: ((6,), (7,)), **more, '13.0': ((a,), (7,))}",
        "flags = ['-std=c++17', '-std=c++20']",
    ],
)
def test_unrecognized_code_is_ignored(text: str) -> None:
    assert parse_cpp_extension(text) == CppExtension()


@pytest.mark.parametrize(
    ("version", "checked"),
    [
        (f"{RELEASE}+cu132", True),
        ("2.6.0+cu130.sm120.g1a2b3c4", True),
        ("2.6.0+cpu.g1a2b3c4.d123456", True),
        ("2.16.0a0+git1a2b3c4", False),
        ("2.6.10+cu130", False),  # two digits are enough for that pattern
    ],
)
def test_own_torch_version_decides_if_compilers_are_checked(version: str, checked: bool) -> None:
    assert parse_cpp_extension(TORCH_2_15).should_check_compilers(version) is checked


def test_version_bounds_compare_like_torch() -> None:
    bounds = VersionBounds("6.0.0", "14.0")
    versions = ("5.9.9", "6.0.0", "13.3.0", "14.0.0", "14.2.0")
    assert [v for v in versions if bounds.is_accepted(v)] == ["6.0.0", "13.3.0"]


def test_check_is_disabled_by_values_torch_accepts() -> None:
    words = ("1", "ON", "0", "true", "")
    assert [word for word in words if is_check_disabled({SKIP_CHECK_VARIABLE: word})] == ["1", "ON"]


def check_torch(s: HostFacts, **asked: Any) -> CheckResult:
    (found,) = check_host(s, profile_on(s, **asked), KNOWLEDGE, frozenset({"torch-checks"}))
    return found


REFUSING = replace(LINUX, **CUDA_12_8)


def test_refused_compiler_is_reported_with_both_fixes() -> None:
    found = check_torch(REFUSING, **ASKED_2_11)
    assert found.level == "problem"
    assert found.seen == (
        "torch 2.11.0+cu128 accepts GCC >=6.0, <14.0 with CUDA 12.8, and refuses "
        "/usr/bin/g++ 14.2.0 for toy"
    )
    assert found.todo.splitlines() == [
        "nvcc accepts this compiler, so disable torch's check:",
        '  extensions (toy).env: {TORCH_DONT_CHECK_COMPILER_ABI: "1"}',
        "or use an older compiler (sudo apt install gcc-13 g++-13):",
        "  build.env: {CC: gcc-13, CXX: g++-13}",
    ]
    fits = replace(REFUSING, cxx=Tool("/usr/bin/g++-13", "13.3.0"))
    assert check_torch(fits, **ASKED_2_11).level == "ok"
    ancient = replace(REFUSING, cxx=Tool("/usr/bin/g++-5", "5.5.0"))
    assert check_torch(ancient, **ASKED_2_11).todo == "install g++ 6.0 or later"


@pytest.mark.parametrize("env", [{SKIP_CHECK_VARIABLE: "1"}, {"CXX": "g++-13"}])
def test_extension_with_disabled_check_is_no_problem(env: dict[str, str]) -> None:
    other = {**EXTENSION, "name": "other", "env": env}
    assert check_torch(REFUSING, **ASKED_2_11, extensions=[other]).level == "ok"
    both = check_torch(REFUSING, **ASKED_2_11, extensions=[other, EXTENSION])
    assert (both.level, both.seen.endswith("for toy")) == ("problem", True)


def test_clang_given_by_path_is_checked_against_gcc_bounds() -> None:
    clang = replace(REFUSING, cxx=Tool("/usr/bin/clang++-18", "18.1.3"))
    found = check_torch(clang, **ASKED_2_11)
    assert (found.level, "accepts GCC >=6.0, <14.0" in found.seen) == ("problem", True)
    assert "apt install" not in found.todo
    assert SAYS.select_bounds("clang++-18") == ("clang", SAYS.clang)


def test_nvcc_of_other_major_version_is_always_refused() -> None:
    off = {**EXTENSION, "env": {SKIP_CHECK_VARIABLE: "1"}}
    found = check_torch(
        replace(LINUX, nvcc=Tool("/usr/local/cuda/bin/nvcc", "12.9.86")), extensions=[off]
    )
    assert found.level == "problem"
    assert found.seen == f"torch {RELEASE}+cu132 was built with CUDA 13.2 and refuses nvcc 12.9.86"
    assert found.todo == 'set toolkit.version: "13.2"'
    minor = replace(LINUX, nvcc=Tool("/usr/local/cuda/bin/nvcc", "13.0.88"))
    assert check_torch(minor).level == "ok"


def test_compiler_that_torch_only_warns_about_is_warning() -> None:
    old = replace(LINUX, cxx=Tool("/usr/bin/g++", "4.9.2"))
    found = check_torch(old)
    assert (found.level, "needs 5.0.0 or later" in found.seen) == ("warning", True)
    msvc = replace(WINDOWS, cxx=Tool(CL.path, "14.16.27023"))
    assert (check_torch(msvc).level, check_torch(WINDOWS).level) == ("warning", "ok")
    assert "cl.exe 19.16" in check_torch(msvc).seen


def test_torch_of_another_plan_is_not_checked() -> None:
    for other in (
        BuildTorch("2.14.1+cu132", "13.2", SAYS),
        BuildTorch(f"{RELEASE}+cu126", "12.6", SAYS),
    ):
        found = check_torch(replace(LINUX, torch=other))
        assert (found.level, found.seen) == (
            *("not checked", f"torch {RELEASE} is not installed yet"),
        )


def test_check_is_skipped_without_cuda_extensions() -> None:
    assert check_torch(REFUSING, **ASKED_2_11, extensions=[]).seen.startswith("not needed")
    assert check_torch(replace(LINUX, torch=None), target={"gpus": []}).seen.startswith(
        "not needed"
    )


def test_extension_without_cuda_sources_is_no_problem() -> None:
    cpp = replace(REFUSING, without_cuda=frozenset({"toy"}))
    assert check_torch(cpp, **ASKED_2_11).seen.startswith("not needed: no CUDA extension")
    other = {**EXTENSION, "name": "other"}
    assert check_torch(cpp, **ASKED_2_11, extensions=[other, EXTENSION]).seen.endswith("for other")


def test_local_sources_are_searched_for_cuda_files(tmp_path: Path) -> None:
    for name in ("toy/csrc/toy.cpp", "rast/csrc/rast.cu", "rast/rast.cpp"):
        write_atomic(tmp_path / name, "")
    sources = tuple((name, tmp_path / name) for name in ("toy", "rast", "not-fetched-yet"))
    asked = ProbeRequest(
        Project.of_checkout(tmp_path), LINUX_HOST, (), build=tmp_path, sources=sources
    )
    assert read_host_facts(asked, frozenset({"torch-checks"})).without_cuda == frozenset({"toy"})


def test_companion_wheel_is_not_compiled() -> None:
    companion: dict[str, Any] = {**ASKED_2_11, "companions": ["torchvision"], "extensions": []}
    stages = profile_on(REFUSING, **companion).plan.stages
    (job,) = [stage.job for stage in stages if stage.kind == "extensions"]
    assert job.kind == "wheel"
    assert check_torch(REFUSING, **companion).seen.startswith("not needed")


def install(site: Path, text: str | None) -> Path:
    torch = site / "torch"
    (torch / "utils").mkdir(parents=True)
    (torch / "version.py").write_text("__version__ = '2.15.0+cu132'\ncuda = '13.2'\n")
    if text is not None:
        (torch / CPP_EXTENSION_PATH).write_text(text, encoding="utf-8")
    return torch


@pytest.mark.parametrize("site", ["lib/python3.12/site-packages", "Lib/site-packages"])
def test_torch_in_environment_is_read_without_running_it(tmp_path: Path, site: str) -> None:
    venv = tmp_path / "venv"
    install(venv / site, f"{TORCH_2_15}\nraise SystemExit('never run')\n")
    asked = ProbeRequest(Project.of_checkout(tmp_path), LINUX_HOST, (), build=tmp_path, venv=venv)
    found = read_host_facts(asked, frozenset({"torch-checks"}))
    assert found.torch == BuildTorch("2.15.0+cu132", "13.2", parse_cpp_extension(TORCH_2_15))


def test_existing_torch_is_read_in_place(tmp_path: Path) -> None:
    asked = ProbeRequest(
        Project.of_checkout(tmp_path), LINUX_HOST, (), build=tmp_path, venv=tmp_path / "venv"
    )
    assert read_host_facts(asked, frozenset({"torch-checks"})).torch == BuildTorch()
    there = replace(asked, torch=install(tmp_path / "conda", None))
    found = read_host_facts(there, frozenset({"torch-checks"})).torch
    assert found == BuildTorch("2.15.0+cu132", "13.2")
    assert (
        read_host_facts(there, ALL_CHECK_IDS - {"torch-checks", "index", "git-hosts"}).torch is None
    )


def test_existing_torch_is_probed_in_its_own_folder() -> None:
    torch = InstalledTorch("2.15.0+cu132", "13.2", "/conda/lib/python3.12/site-packages/torch")
    host = replace(LINUX_HOST, python=Interpreter("/conda/bin/python", "3.12.4", torch))
    s = replace(LINUX, host=host)
    existing = profile_on(s, torch={"strategy": "existing"})
    assert (
        str(build_probe_request(Project.of_checkout(s.root), host, existing).torch) == torch.folder
    )
    assert build_probe_request(Project.of_checkout(s.root), host, profile_on(s)).torch is None
