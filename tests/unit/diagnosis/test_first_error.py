"""The first error of a log: the earliest line that is no noise, no consequence and not overcome."""

from __future__ import annotations

import pytest

from tasks.diagnosis.failure_cause import diagnose_log
from tasks.diagnosis.failure_matches import ParsedLog
from tasks.diagnosis.log_lines import RawLine
from tests.support.checkout import KNOWLEDGE
from tests.support.rows import each_row

# The first error is marked with >>
LOGS = [
    # gcc, clang and nvcc
    "In file included from a.cpp:1:\n>>a.h:3:10: fatal error: b.h: No such file or directory\n"
    "    3 | #include <b.h>\n      |          ^~~~~\ncompilation terminated.",
    ">>a.cu(12): error: no instance of overloaded function matches the argument list\n"
    '          detected during instantiation of "void f<T>()"\n1 error detected in the compilation',
    ">>a.cu(12): error: identifier \"x\" is undefined; 1 error detected in the compilation of a.cu.",
    "100 warnings generated.\n>>clang: error: unknown argument: '-fopenmp'\n1 error generated.",
    ">>nvcc fatal   : Unsupported gpu architecture 'compute_120'",
    ">>ptxas error   : Entry function 'k' uses too much shared data",
    "nvcc warning : The 'compute_35' architectures are deprecated\n"
    ">>ptxas fatal   : Unresolved extern function 'f'",
    ">>c++: internal compiler error: Segmentation fault signal terminated program cc1plus",
    ">>cc1plus: error: unrecognized command-line option '-std=c++23'",
    # MSVC and MSBuild
    "cl /c a.cpp\n>>a.cpp(3): error C2039: 'x': is not a member of 'std'",
    "a.cpp\n>>C:\\a b\\a.cpp(3,5): error C2065: 'x': undeclared identifier [C:\\b\\a.vcxproj]",
    ">>5>C:\\a.cpp(3): fatal error C1083: Cannot open include file: 'x.h': No such file or directory",
    "   Creating library a.lib and object a.exp\n>>LINK : fatal error LNK1181: cannot open input "
    "file 'x.lib'\nerror: command 'link.exe' failed with exit code 1181",
    ">>a.obj : error LNK2001: unresolved external symbol f\na.pyd : fatal error LNK1120: 1 "
    "unresolved externals",
    ">>C:\\VS\\Cuda.targets(3,5): error MSB8020: The build tools for v143 cannot be found.",
    # linkers
    ">>/usr/bin/ld: cannot find -lcudart: No such file or directory\n"
    "collect2: error: ld returned 1 exit status",
    "/usr/bin/ld: a.o: in function `main':\n>>a.cpp:(.text+0x1f): undefined reference to `f'\n"
    "collect2: error: ld returned 1 exit status",
    '>>Undefined symbols for architecture arm64:\n  "_f", referenced from:\n'
    "ld: symbol(s) not found for architecture arm64\nclang: error: linker command failed with exit "
    "code 1 (use -v to see invocation)",
    ">>ld: library not found for -lomp\nclang: error: linker command failed with exit code 1",
    ">>ld.lld: error: undefined symbol: f\n>>> referenced by a.cpp",
    ">>/usr/bin/ld: a.o: relocation R_X86_64_32 against `.data' can not be used when making a shared "
    "object; recompile with -fPIC",
    ">>collect2: fatal error: cannot find 'ld'\ncompilation terminated.",
    # CMake, Ninja and make
    "-- Looking for x - not found\n>>CMake Error at CMakeLists.txt:3 (message):\n  x not found\n\n"
    "-- Configuring incomplete, errors occurred!",
    "CMake Warning at a.cmake:3 (message):\n  Could not find x, cannot open y\n\n"
    "Call Stack (most recent call first):\n  CMakeLists.txt:1 (f)\n\n"
    ">>CMake Error: The source directory \"/a\" does not exist.",
    "CMake Warning (dev) at a.cmake:3 (find_package):\n  ERROR: policy\n  could not find x\n"
    "This warning is for project developers.\n\n>>CMake Error in CMakeLists.txt:\n  x",
    "-- message ERROR: none\n>>ninja: error: 'a.c', needed by 'a.o', missing and no known rule",
    ">>make: *** No rule to make target 'a.c', needed by 'a.o'.  Stop.",
    ">>Makefile:3: *** missing separator.  Stop.",
    ">>make[1]: g++: Command not found\nmake[1]: *** [Makefile:3: a.o] Error 127",
    "[1/3] c++ a.o\nFAILED: [code=1] a.o\nc++ -c a.cpp -o a.o\n>>a.cpp:1:1: error: x\n"
    "ninja: build stopped: subcommand failed.",
    "[1/1] Linking CXX shared module a.so\nLoading extension module a...\n"
    ">>ImportError: /a.so: cannot open shared object file: No such file or directory",
    # pip, uv and conda
    "  error: subprocess-exited-with-error\n\n  × python setup.py bdist_wheel did not run "
    "successfully.\n  │ exit code: 1\n  ╰─> [3 lines of output]\n      Traceback (most recent call "
    "last):\n        File \"setup.py\", line 3, in <module>\n>>      ModuleNotFoundError: No module "
    "named 'torch'\n      [end of output]\n\n  note: This error originates from a subprocess\n"
    "error: metadata-generation-failed",
    ">>ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n"
    "ERROR: No matching distribution found for x",
    ">>ERROR: Invalid requirement: 'x=1': Expected end",
    "Resolved 3 packages in 1ms\n  × Failed to build `x==1`\n  ├─▶ The build backend returned an "
    "error\n  ╰─▶ Call to `setuptools.build_meta.build_wheel` failed (exit status: 1)\n"
    "      [stderr]\n>>      a.cpp:1:1: error: y",
    ">>  × No solution found when resolving dependencies:\n  ╰─▶ Because x depends on y>=2",
    ">>error: Failed to fetch: `https://pypi.org/simple/x/`\n  Caused by: dns error",
    "Solving environment: failed with initial frozen solve. Retrying with flexible solve.\n"
    ">>PackagesNotFoundError: The following packages are not available from current channels:",
    ">>LibMambaUnsatisfiableError: Encountered problems while solving:\n  - package x requires y",
    ">>Could not solve for environment specs\nThe following packages are incompatible",
    "WARNING: Ignoring invalid distribution -orch\nWARNING: There was an error: x"
    "\n>>ERROR: a.whl is not a supported wheel on this platform.",
    # Python
    "Traceback (most recent call last):\n  File \"a.py\", line 1\n    assert x\n>>AssertionError",
    "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n>>KeyboardInterrupt",
    "  File \"a.py\", line 3\n    print 'x'\n          ^\n>>SyntaxError: Missing parentheses",
    "Traceback (most recent call last):\n  File \"a\"\n>>KeyError: 'x'\n\nDuring handling of the "
    "above exception, another exception occurred:\n\nTraceback (most recent call last):\n"
    "RuntimeError: y",
    "Traceback (most recent call last):\n>>packaging.version.InvalidVersion: Invalid version: 'x'",
    "Traceback (most recent call last):\n>>subprocess.TimeoutExpired: Command 'x' timed out",
    "Traceback (most recent call last):\n>>pkg_resources.DistributionNotFound: The 'x' distribution",
    ">>[rank0]: RuntimeError: NCCL error in: a.cpp",
    "    import x\n>>E   ModuleNotFoundError: No module named 'x'",
    ">>/usr/bin/python3: No module named pip",
    ">>a.cpp:3:1: error: x\nninja: build stopped: subcommand failed.\nTraceback (most recent call "
    "last):\nsubprocess.CalledProcessError: Command '['ninja']' returned non-zero exit status 1.\n"
    "The above exception was the direct cause of the following exception:\nRuntimeError: Error "
    "compiling objects for extension",
    ">>OSError: [WinError 193] %1 is not a valid Win32 application",
    # programs that ended
    "[1/2] c++\n>>Killed\nmake: *** [Makefile:3: a.o] Error 137",
    ">>bash: line 1: 4711 Killed                  python train.py",
    ">>Segmentation fault (core dumped)",
    ">>bash: line 1:  4711 Segmentation fault      (core dumped) python a.py",
    ">>Bus error (core dumped)",
    ">>terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
    "Aborted (core dumped)",
    ">>Fatal Python error: Segmentation fault\n\nThread 0x1 (most recent call first):",
    # shells, and other tools
    ">>'nvcc' is not recognized as an internal or external command,\noperable program or batch file.",
    ">>cl : The term 'cl' is not recognized as the name of a cmdlet, function, script file",
    ">>The system cannot find the path specified.",
    ">>/bin/sh: 1: nvcc: not found",
    ">>bash: cmake: command not found",
    ">>zsh: command not found: cmake",
    ">>/usr/bin/env: 'python': No such file or directory",
    ">>error[E0432]: unresolved import `x`\n --> src/lib.rs:1:5\nerror: aborting due to 1 previous "
    "error\nerror: could not compile `x` (lib) due to 1 previous error",
    " => ERROR [2/3] RUN pip install x                    1.2s\n#6 1.022 >>ERROR: Invalid "
    "requirement: 'x'\nERROR: failed to solve: process \"/bin/sh -c pip install x\" did not complete "
    "successfully: exit code: 1",
    ">>docker: Error response from daemon: could not select device driver",
    "Cloning into 'x'...\n>>fatal: unable to access 'https://x/': Could not resolve host: x",
    "Cloning into 'x'...\n>>git@github.com: Permission denied (publickey).\nfatal: Could not read "
    "from remote repository.",
    ">>curl: (22) The requested URL returned error: 404",
    "--2026-01-01 12:00:00--  https://x/y\n>>2026-01-01 12:00:01 ERROR 404: Not Found.",
    ">>urllib.error.HTTPError: HTTP Error 404: Not Found",
    "Reading package lists...\n>>E: Unable to locate package x",
    ">>/v/bin/python: error while loading shared libraries: libpython3.so: cannot open",
    ">>CUDA error at a.cu:3 code=46(cudaErrorDevicesUnavailable)",
    "checking for x... no\n>>configure: error: no acceptable C compiler found in $PATH",
    # prefixes of CI systems, and colours
    "2026-01-01T12:00:00.0000000Z >>a.cpp:1:1: error: x",
    "\x1b[1ma.cpp:1:1: \x1b[31mnote: x\n##[error]>>a.cpp:1:1: error: x\n##[error]Process completed "
    "with exit code 1.",
    "#12 3.456 >>a.cpp:1:1: error: x",
    "12:00:01 >>a.cpp:1:1: error: x",
    "> >>a.cpp:1:1: error: x",
    # no other line has the error
    "[1/9] c++ a\n>>ninja: build stopped: subcommand failed.",
    ">>100 errors detected in the compilation of \"a.cu\".\nerror: command 'nvcc' failed with exit "
    "code 1",
    "  Building wheel for x (setup.py): started\n>>  Building wheel for x (setup.py): finished with "
    "status 'error'\nFailed to build x",
    "Collecting x\n>>  error: subprocess-exited-with-error",
]  # fmt: skip


@each_row("log", LOGS)
def test_first_error_is_found(log: str) -> None:
    lines = log.split("\n")
    number = next(at for at, line in enumerate(lines, 1) if ">>" in line.replace(">>> ", ""))
    text = lines[number - 1].partition(">>")[2] or lines[number - 1]
    raws = [
        RawLine(at, one.replace(">>", "", 1) if at == number else one)
        for at, one in enumerate(lines, 1)
    ]
    error = diagnose_log(KNOWLEDGE.failures, ParsedLog(raws)).first_error
    assert error is not None, log
    assert error.number == number, (error, log)
    assert error.text.strip() in text.strip() or text.strip() in error.text


@pytest.mark.parametrize(
    "line",
    [
        "/usr/include/bits/a.h:66:11: error: ‘uint8_t’ does not name a type",
        "a.cpp:1:1: Fehler: »x« wurde nicht deklariert",
    ],
)
def test_first_error_is_shown_in_its_own_words(line: str) -> None:
    error = diagnose_log(KNOWLEDGE.failures, ParsedLog([RawLine(1, line)])).first_error
    assert error is not None
    assert error.text == line


def test_error_in_joined_lines_is_shown_alone() -> None:
    command = "FAILED: a.o /usr/bin/c++ " + "-I/a/include/folder " * 20
    line = f"{command}In file included from /a.cc:9: /b/types.h:66:11: error: 'x' does not name"
    error = diagnose_log(KNOWLEDGE.failures, ParsedLog([RawLine(1, line)])).first_error
    assert error is not None
    assert error.text == "/b/types.h:66:11: error: 'x' does not name"
