"""Tests of the short form of build output, with lines of real builds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import text

from tasks.jobs import progress_io
from tasks.jobs.build_output import is_warning, summarize_line
from tests.support.checkout import Heard
from tests.support.rows import each_row

FLAGS = "-DUSE_C10D_GLOO " * 200
SET_UP = (
    f"ccache /usr/bin/g++ {FLAGS} -MF caffe2/CMakeFiles/torch_cpu.dir/x.cpp.o.d "
    "-o caffe2/CMakeFiles/torch_cpu.dir/x.cpp.o -c /src/pytorch/aten/src/ATen/x.cpp"
)
LINK = f"/usr/bin/g++ -fPIC {FLAGS} -shared -o lib/libc10.so c10/CMakeFiles/c10.dir/x.cpp.o && :"


@each_row(
    ("line", "short"),
    [
        ("[3/9] Building CXX object c10/CMakeFiles/c10.dir/util/Foo.cpp.o", "Foo.cpp"),
        ("[3/9] Building CUDA object CMakeFiles\\torch.dir\\Sort.cu.obj", "Sort.cu"),
        ("[9/9] Linking CXX shared library lib/libc10.so", "libc10.so"),
        ("[1/4] Generating ATen headers", "Generating ATen headers"),
        ("[0/1] Re-running CMake...", "Re-running CMake..."),
        ("[5/9] Performing build step for 'nccl'", "Performing build step for 'nccl'"),
        (f"[109/1368] {SET_UP}", "x.cpp"),
        (f"[89/1368] : && {LINK}", "libc10.so"),
        ("[1/2] nvcc -x cu -c -c '/src/my.cu' -o /b/my.o -Xcompiler -fPIC", "my.cu"),
        ('[1/2] nvcc -x cu -c "/my src/my.cu" -o /b/my.o', "my.cu"),
        ("[1/2] C:\\VS\\bin\\cl.exe /nologo /c /TpC:\\src\\x.cpp /FoC:\\b\\x.obj", "x.cpp"),
        ('[1/2] cmd.exe /C "cd . && link.exe /nologo a.obj /out:bin\\c10.dll && cd ."', "c10.dll"),
        ("[9/9] : && /bin/cmake -E rm -f lib/libfp16.a && /bin/ar qc lib/libfp16.a", "libfp16.a"),
        ("[7/9] cd /src && /bin/cmake -E copy /a /b", "cmake -E copy"),
        ("[7/9] cd /src && /venv/bin/python -m torchgen.gen --source-path /src", "torchgen.gen"),
        ("[7/9] cd /src && /venv/bin/python -mtools.pyi.gen_pyi --x", "tools.pyi.gen_pyi"),
        ("[7/9] cd /src && /venv/bin/python3 tools/generate_code.py --x", "generate_code.py"),
        ("[7/9] /venv/bin/python3 -u -m", "python3"),
        ("[7/9] : && :", ": && :"),
        ("[7/9] /b/bin/protoc --cpp_out /b /src/x.proto", "protoc"),
        ("g++ -pthread -fPIC -I/venv/include -c smoke.cpp -o build/smoke.o", "smoke.cpp"),
        ("[ 45%] Building CXX object CMakeFiles/spdlog.dir/src/spdlog.cpp.o", "spdlog.cpp"),
        ("-- Performing Test HAS_AVX2 - Success", "Performing Test HAS_AVX2"),
        ("-- Detecting CUDA compile features", "checking the CUDA compiler"),
        ("-- Build files have been written to: /src/slice/build", "compiling"),
        ("  building 'simple_knn._C' extension", "compiling simple_knn._C"),
        ("  adding 'torch/lib/libc10.so'", "adding libc10.so"),
        (
            "copying torch/version.py -> build/lib.linux-x86_64-cpython-313/torch",
            "copying version.py",
        ),
        ("Copying functorch._C from functorch/functorch.so to /src/x.so", "copying functorch._C"),
        ("*** Building project with Ninja...", "compiling"),
        ("Downloading " + "x" * 3000, "Downloading " + "x" * 188),
    ],
)
def test_line_is_shortened_to_file_or_action(line: str, short: str) -> None:
    assert summarize_line(line) == short


SILENT = """\
Looking in links: /opt/wheels
Processing ./build/local-full-cuda/extensions/smoke/tree
  Preparing metadata (pyproject.toml): started
  Running command Preparing metadata (pyproject.toml)
  No CUDA runtime is found, using CUDA_HOME='/usr'
  running dist_info
  creating /tmp/pip-modern-metadata-fivm5otx/torchyard_smoke.egg-info
  writing top-level names to /tmp/pip-modern-metadata-fivm5otx/smoke.egg-info/top_level.txt
  Preparing metadata (pyproject.toml): finished with status 'done'
Building wheels for collected packages: torchyard_smoke
  running bdist_wheel
  running build_ext
  Emitting ninja build file /src/smoke/tree/build/temp.linux-x86_64-cpython-313/build.ninja...
  Compiling objects...
  Using envvar MAX_JOBS (2) as the number of workers...
  ninja: Jobserver mode detected:  -j2 --jobserver-auth=fifo:/src/torchyard/build/.jobs/tokens
  installing to build/bdist.linux-x86_64/wheel
  Created wheel for torchyard_smoke: filename=torchyard_smoke-1.0-cp313-cp313-linux_x86_64.whl
  Stored in directory: /tmp/pip-ephem-wheel-cache-kdn00s41/wheels/e3/14/30
    warnings.warn(f'There are no {compiler_name} version bounds defined for CUDA version')
dist.py:759: SetuptoolsDeprecationWarning: License classifiers are deprecated.
!!
x.cpp:1:1: warning: unused
cmake --build . --target install --config Release -- -j 2 -v
--   USE_XPU               : OFF
/usr/include
""".splitlines()


@each_row("line", SILENT)
def test_tool_chatter_is_not_shown(line: str) -> None:
    assert not summarize_line(line)


def test_extension_name_is_shown_while_first_file_compiles(heard: Heard) -> None:
    handle_line = progress_io.create_line_handler()
    for line in (
        "  building 'simple_knn._C' extension",
        "  Emitting ninja build file /src/tree/build/temp.linux-x86_64-cpython-311/build.ninja...",
        "  Compiling objects...",
        "  Allowing ninja to set a default number of workers...",
        "  ninja: Jobserver mode detected:  -j2 --jobserver-auth=fifo:/src/build/.jobs/tokens",
    ):
        handle_line(line)
    assert heard == ["compiling simple_knn._C"]


@given(text(alphabet="[1/2] -ocm&\\:'\".ax", max_size=300))
def test_arbitrary_line_is_shortened(line: str) -> None:
    assert len(summarize_line(line)) <= 200


def test_compiler_output_is_not_shown_during_ninja_progress(heard: Heard) -> None:
    handle_line = progress_io.create_line_handler()
    for line in (
        "-- Configuring done (13.9s)",
        f"[1/3] {SET_UP}",
        "x.cpp:1:1: warning: unused",
        "",
        "[2/3] Linking CXX shared library lib/libx.so",
        "-- Install configuration: Release",
        "copying torch/version.py -> build/lib.linux-x86_64-cpython-313/torch",
    ):
        handle_line(line)
    assert heard == [
        "configured",
        "x.cpp 1/3 (33 %)",
        "libx.so 2/3 (66 %)",
        "installing",
        "copying version.py",
    ]


@pytest.mark.parametrize(
    ("line", "warns"),
    [
        ("x.cpp:3:1: warning: unused variable 'a' [-Wunused-variable]", True),
        ("/src/x.cu(3): warning #177-D: variable was declared but never referenced", True),
        (r"C:\x.cpp(3): warning C4244: conversion from 'int'", True),
        ("cl : Command line warning D9025 : overriding '/W3' with '/w'", True),
        ("nvcc warning : incompatible redefinition for option 'std'", False),
        ("[3/9] Building CXX object warning.cpp.o", False),
        ("g++ -Wno-warning: x.cpp", False),
    ],
)
def test_compiler_warning_is_recognized(line: str, *, warns: bool) -> None:
    assert is_warning(line) == warns
