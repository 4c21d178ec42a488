"""The choice of a compiler, and the error when none fits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tasks.core.deps_model import CompilerLimits
from tasks.core.errors import MissingToolError
from tasks.system.hardware import toolchain
from tests.support.checkout import OnSystem

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="not run: compilers as scripts")


def compiler(folder: Path, name: str, version: str) -> None:
    script = folder / name
    text = (
        f"{name} (Debian {version}-1+deb12u1) {version}" if "g" in name[:1] else f"clang {version}"
    )
    script.write_text(f"#!/bin/sh\necho '{text}'\n", encoding="utf-8")
    script.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def both(folder: Path, suffix: str, version: str) -> None:
    compiler(folder, f"gcc{suffix}", version)
    compiler(folder, f"g++{suffix}", version)


def test_default_compiler_is_used_if_toolkit_supports_it(programs: Path) -> None:
    both(programs, "", "12.2.0")
    chosen = toolchain.choose_compilers((None, None), CompilerLimits(gcc_max=13))
    cc, cxx = chosen.cc, chosen.cxx
    assert (cc.path, cc.version) == (str(programs / "gcc"), "12.2.0")
    assert cxx.path == str(programs / "g++")


def test_older_compiler_is_used_if_default_is_too_new(programs: Path) -> None:
    both(programs, "", "14.2.0")
    both(programs, "-13", "13.3.0")
    both(programs, "-12", "12.2.0")
    assert toolchain.choose_compilers((None, None), CompilerLimits(gcc_max=13)).cxx.path == str(
        programs / "g++-13"
    )


def test_unsupported_compiler_is_reported_with_install_command(
    programs: Path, on_system: OnSystem
) -> None:
    on_system("debian-13", "debian")
    both(programs, "", "14.2.0")
    with pytest.raises(MissingToolError) as caught:
        toolchain.choose_compilers((None, None), CompilerLimits(gcc_max=13))
    assert (
        "g++ 14.2.0 is newer than this CUDA toolkit supports (GCC up to 13)" in caught.value.message
    )
    assert "sudo apt install gcc-13 g++-13  (torchyard then finds" in caught.value.hint


def test_user_choice_of_compiler_is_final(programs: Path) -> None:
    both(programs, "", "12.2.0")
    both(programs, "-11", "11.4.0")
    assert (
        toolchain.choose_compilers(("gcc-11", "g++-11"), CompilerLimits(gcc_max=13)).cxx.version
        == "11.4.0"
    )
    with pytest.raises(MissingToolError, match=r"g\+\+-9"):
        toolchain.choose_compilers(("gcc-9", "g++-9"), CompilerLimits(gcc_max=13))


def test_missing_compiler_error_names_install_command(programs: Path, on_system: OnSystem) -> None:
    on_system("debian")
    with pytest.raises(MissingToolError, match="this machine has no C") as caught:
        toolchain.choose_compilers((None, None), CompilerLimits())
    assert caught.value.hint == "sudo apt install build-essential"


CUDA = CompilerLimits(cuda="12.8", gcc_max=14, clang_max=19)


def clangs(folder: Path, suffix: str, version: str) -> None:
    compiler(folder, f"clang{suffix}", version)
    compiler(folder, f"clang++{suffix}", version)


def test_clang_newer_than_toolkit_supports_is_not_chosen(programs: Path) -> None:
    clangs(programs, "", "20.1.0")
    with pytest.raises(MissingToolError) as caught:
        toolchain.choose_compilers((None, None), CUDA)
    assert (
        caught.value.message == "clang++ 20.1.0 is newer than CUDA 12.8 supports (clang up to 19)"
    )
    clangs(programs, "-18", "18.1.3")
    chosen = toolchain.choose_compilers((None, None), CUDA)
    assert (chosen.cxx.path, chosen.kind) == (str(programs / "clang++-18"), "clang")
    assert chosen.why.endswith("supports (clang up to 19): clang++-18 (18.1.3) is used")


def test_clang_is_not_limited_by_gcc_maximum(programs: Path) -> None:
    clangs(programs, "", "18.1.0")
    assert toolchain.choose_compilers((None, None), CUDA).cxx.path == str(programs / "clang++")


def test_choice_of_older_compiler_is_explained(programs: Path) -> None:
    both(programs, "", "15.1.0")
    both(programs, "-14", "14.3.0")
    clangs(programs, "", "18.1.0")
    chosen = toolchain.choose_compilers((None, None), CUDA)
    assert chosen.cc.path == str(programs / "gcc-14")
    assert chosen.why == (
        "g++ 15.1.0 is newer than CUDA 12.8 supports (GCC up to 14): g++-14 (14.3.0) is used"
    )


def test_default_compiler_needs_no_explanation(programs: Path) -> None:
    both(programs, "", "14.2.0")
    chosen = toolchain.choose_compilers((None, None), CUDA)
    assert (chosen.why, chosen.kind) == ("", "gcc")


def test_clang_installed_as_cc_is_recognized(programs: Path) -> None:
    for name in ("cc", "c++"):
        script = programs / name
        script.write_text("#!/bin/sh\necho 'Debian clang version 20.1.2 (3)'\n", encoding="utf-8")
        script.chmod(0o755)
    with pytest.raises(MissingToolError, match=r"c\+\+ 20\.1\.2 is newer .* \(clang up to 19\)"):
        toolchain.choose_compilers((None, None), CUDA)


def test_requested_compiler_that_is_too_new_is_refused(programs: Path) -> None:
    both(programs, "-15", "15.1.0")
    both(programs, "", "13.3.0")
    with pytest.raises(MissingToolError, match=r"^build\.env\.CXX: g\+\+-15 15\.1\.0 is newer"):
        toolchain.choose_compilers(("gcc-15", "g++-15"), CUDA)


def test_gcc_older_than_source_requires_is_not_chosen(programs: Path) -> None:
    both(programs, "", "8.5.0")
    sources = CompilerLimits(gcc_max=13, cuda="12.4", torch="2.6.0", gcc_min="9.3")
    with pytest.raises(MissingToolError, match=r"older than the sources of PyTorch 2\.6\.0"):
        toolchain.choose_compilers((None, None), sources)
    both(programs, "-11", "11.4.0")
    assert toolchain.choose_compilers((None, None), sources).cxx.version == "11.4.0"


def test_library_is_searched_with_linker(tmp_path: Path) -> None:
    assert toolchain.can_link_library("g++", "m", tmp_path)
    assert not toolchain.can_link_library("g++", "no-such-library", tmp_path)
    assert not list(tmp_path.iterdir())
