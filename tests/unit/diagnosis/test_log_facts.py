"""What a log says of the machine that wrote it."""

from __future__ import annotations

import pytest

from tasks.diagnosis.log_facts import LogFacts, parse_log_facts
from tasks.diagnosis.log_lines import LogLine

WINDOWS = r"""
C:\Users\me\miniconda3\envs\gs\lib\site-packages\torch
C:\Program Files\Microsoft Visual Studio\2022\Community\VC\Tools\MSVC\14.34.31933\a
"-IC:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v11.8\include"
temp.win-amd64-cpython-310
"""


def read(log: str) -> LogFacts:
    return parse_log_facts(LogLine(at, line) for at, line in enumerate(log.split("\n"), 1))


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            WINDOWS,
            "Windows, conda, Python 3.10, CUDA 11.8, Visual Studio 2022, MSVC 14.34",
        ),
        (r"c:\python311\lib\a.py", "Windows"),
        ("a.obj : error LNK2001: unresolved", "Windows"),
        ("/usr/lib/python3.11/site-packages", "Linux, Python 3.11"),
        ("gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", "Ubuntu 22.04, GCC 11.4"),
        ("Ubuntu 22.04.3 LTS", "Ubuntu 22.04"),
        ("Linux 5.15.90.1-microsoft-standard-WSL2 x86_64", "WSL2"),
        ("gcc-11.4.1-2.el9.x86_64", "RHEL 9, GCC 11"),
        ("kernel 6.5.6-300.fc39.x86_64", "Fedora 39"),
        ("/opt/homebrew/bin/python", "macOS"),
        ("Library not loaded: @rpath/libtoy.dylib", "macOS"),
        ("/Users/me/toy/setup.py", "macOS"),
        ("/mnt/c/Users/me/toy", "Linux"),
        ("platform darwin: macosx-11.0-arm64", "macOS"),
        ("#12 3.456 pip install\n/opt/venv/bin", "Linux, Docker"),
        ("Using /root/.cache/torch_extensions/py38_cu117 as root", "Linux, Python 3.8, CUDA 11.7"),
        ("Downloading torch-2.1.0+cu118-cp310-cp310-linux_x86_64.whl",
         "Python 3.10, torch 2.1.0+cu118, CUDA 11.8"),
        ("Collecting torch==2.0.1", "torch 2.0.1"),
        ("torch.__version__  = 2.11.0+cu130", "torch 2.11.0+cu130, CUDA 13.0"),
        ("/usr/local/cuda-12.4/bin/nvcc", "Linux, CUDA 12.4"),
        ("Cuda compilation tools, release 12.8, V12.8.61", "CUDA 12.8"),
        ("/usr/include/c++/13/bits/a.h", "Linux, GCC 13"),
        ("CC=gcc-10 CXX=g++-10", "GCC 10"),
        ("Ubuntu clang version 14.0.0", "Ubuntu, clang 14.0"),
        ("nothing is known", ""),
    ],
)  # fmt: skip
def test_log_says_what_machine_it_is_of(log: str, said: str) -> None:
    assert str(read(log)) == said


@pytest.mark.parametrize(
    ("log", "managers"),
    [
        ("Ubuntu 22.04", ("apt", "conda")),
        (r"D:\a\b", ("conda", "pip")),
        ("a.el8.x86_64", ("dnf", "conda")),
        ("/home/me/a", ()),
    ],
)
def test_system_decides_which_package_managers_are_named(
    log: str, managers: tuple[str, ...]
) -> None:
    assert read(log).managers == managers


def test_words_and_version_ranges_of_a_log() -> None:
    facts = read(
        "/usr/local/cuda-12.4/bin/nvcc\ngcc (GCC) 4.8.5\nERROR: Failed building wheel for apex"
    )
    assert facts.words["log_cu"] == "cu124"
    assert facts.words["log_package"] == "apex"
    assert facts.matches(["GCC <5", "CUDA >=12.0"])
    assert not facts.matches(["GCC >=5"])
    assert not facts.matches(["Python >=3.12"])  # the log does not say it
