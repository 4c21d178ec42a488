"""Tests of the ABI fingerprint: what changes it and what does not."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import BadArtifactError
from tasks.stages import abi_fingerprint_store_io
from tasks.stages.wheel.model import AbiFingerprint
from tasks.stages.wheel.torch_abi_io import read_abi_fingerprint
from tasks.wheels import exported_symbols_io
from tests.support.sharedlibrary import compile_library, linux
from tests.support.torches import C10, CPP_EXTENSION, CPU, Torch
from tests.unit.cli.running.test_graph import Bench

pytestmark = linux
LOCAL = "static int local(int a) { return a; }\n"
HIDDEN = '__attribute__((visibility("hidden"))) int hidden(int a) { return a; }\n'


@pytest.fixture
def torch(tmp_path: Path) -> Torch:
    return Torch(tmp_path)


def fingerprint(torch: Torch) -> AbiFingerprint:
    return read_abi_fingerprint(torch.found, torch.deps, torch.reading)


def test_abi_fingerprint_names_compatibility_facts(torch: Torch) -> None:
    found = fingerprint(torch)
    assert (found.release, found.cuda, found.python_tag) == ("2.15.0", "13.2", "cp312")
    assert (found.identity, found.cxx_standard, found.cxx11_abi) == ("env-1", 20, None)
    assert len(found.name) == 8
    assert int(found.name, 16) >= 0


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("c10", C10.replace("42", "43")),
        ("c10", LOCAL + C10.replace("42", "local(42)")),
        ("c10", HIDDEN + C10.replace("42", "hidden(42)")),
        ("shm", "int shm_new(void) { return 1; }\n"),
        ("torch_global_deps", "int nothing(void) { return 1; }\n"),
    ],
    ids=["a body", "a local function", "a hidden function", "shm", "global deps"],
)
@pytest.mark.parametrize("record", [True, False], ids=["RECORD", "no RECORD"])
def test_private_symbols_do_not_change_abi_fingerprint(
    tmp_path: Path, name: str, source: str, record: bool
) -> None:
    torch = Torch(tmp_path, record=record)
    before = fingerprint(torch)
    torch.compile(name, source)
    assert format_canonical_json(fingerprint(torch)) == format_canonical_json(before)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("c10", C10 + "int c10_new(void) { return 1; }\n"),
        ("c10", C10 + "int c10_data = 1;\n"),
        ("c10", C10.replace("c10_answer", "c10_reply")),
        ("torch_cpu", CPU + "__attribute__((weak)) int weak(void) { return 1; }\n"),
        ("torch_cuda_linalg", "int solve(void) { return 1; }\n"),
        ("torch_python", "int wrap(void) { return 1; }\n"),
    ],
    ids=["a function", "a variable", "another name", "a weak one", "a library", "libtorch_python"],
)
@pytest.mark.parametrize("record", [True, False], ids=["RECORD", "no RECORD"])
def test_exported_symbols_change_abi_fingerprint(
    tmp_path: Path, name: str, source: str, record: bool
) -> None:
    torch = Torch(tmp_path, record=record)
    before = fingerprint(torch)
    torch.compile(name, source)
    after = fingerprint(torch)
    assert (after.headers, after.symbols != before.symbols) == (before.headers, True)
    assert after.name != before.name


@pytest.mark.parametrize("record", [True, False], ids=["RECORD", "no RECORD"])
def test_headers_change_abi_fingerprint_and_python_code_does_not(
    tmp_path: Path, record: bool
) -> None:
    torch = Torch(tmp_path, record=record)
    before = fingerprint(torch)
    torch.write("nn.py", "1")
    torch.write("include/c10/a.h", "int c10_answer(void);\n")
    assert fingerprint(torch) == before
    torch.write("include/c10/a.h", "long c10_answer(void);\n")
    after = fingerprint(torch)
    assert (after.symbols, after.headers != before.headers) == (before.symbols, True)
    torch.write("share/cmake/Torch/TorchConfig.cmake", "set(TORCH_FOUND FALSE)\n")
    last = fingerprint(torch)
    assert last.headers != after.headers
    torch.write("utils/cpp_extension.py", f"{CPP_EXTENSION}COMMON_NVCC_FLAGS = ['-DX']\n")
    assert fingerprint(torch).headers != last.headers


def test_abi_fingerprint_is_independent_of_record(tmp_path: Path) -> None:
    torch = Torch(tmp_path)
    before = fingerprint(torch)
    shutil.rmtree(torch.folder.parent / "torch-2.15.0.dist-info")
    assert fingerprint(torch) == before


def test_new_environment_changes_manifest_but_not_fingerprint_name(torch: Torch) -> None:
    before = fingerprint(torch)
    torch.deps = replace(torch.deps, identity="env-2")
    after = fingerprint(torch)
    assert (after != before, after.name) == (True, before.name)
    for change in ({"release": "2.15.1"}, {"cuda": None}, {"cxx11_abi": True}, {"cxx_standard": 9}):
        assert replace(before, **change).name != before.name


STRINGS = "#include <string>\nnamespace c10 { void say(const std::string&) {} }\n"


@pytest.mark.skipif(not shutil.which("c++"), reason="not run: needs a C++ compiler")
@pytest.mark.parametrize("abi", [0, 1])
def test_string_abi_is_read_from_c10_symbols(tmp_path: Path, abi: int) -> None:
    torch = Torch(tmp_path)
    define = f"#define _GLIBCXX_USE_CXX11_ABI {abi}\n"
    # a statically linked libstdc++ exports its own symbols regardless of torch's ABI
    foreign = "#include <stdexcept>\nvoid foreign() __asm__("
    foreign += '"_ZGTtNSt11logic_errorC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");'
    foreign += "\nvoid foreign() {}\n"
    path = torch.folder / "lib" / "libc10.so"
    compile_library(path, define + STRINGS + foreign, compiler="c++")
    torch.listed()
    assert any("__cxx11" in name for name in exported_symbols_io.read_exported_symbols(path) or ())
    assert fingerprint(torch).cxx11_abi is bool(abi)


def test_cxx_standard_falls_back_to_knowledge(torch: Torch) -> None:
    torch.write("utils/cpp_extension.py", "flags = ['-std=c++17', '-std=c++20']\n")
    assert fingerprint(torch).cxx_standard == 17
    (torch.folder / "utils" / "cpp_extension.py").unlink()
    assert fingerprint(torch).cxx_standard == 17


@pytest.mark.parametrize("record", [True, False], ids=["RECORD", "no RECORD"])
def test_library_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: bool
) -> None:
    torch, read = Torch(tmp_path, record=record), list[str]()
    fingerprint(torch)
    really = exported_symbols_io.read_exported_symbols

    def exported(path: Path) -> frozenset[str] | None:
        read.append(path.name)
        return really(path)

    monkeypatch.setattr(exported_symbols_io, "read_exported_symbols", exported)
    fingerprint(torch)
    assert read == []
    torch.compile("c10", C10.replace("42", "43"))
    fingerprint(torch)
    assert read == ["libc10.so"]


def test_library_without_digest_is_always_read(torch: Torch) -> None:
    record = torch.folder.parent / "torch-2.15.0.dist-info" / "RECORD"
    rows = record.read_text(encoding="utf-8").splitlines()
    bare = [row.split(",")[0] + ",," if "libc10" in row else row for row in rows]
    record.write_text("\n".join(bare) + "\n", encoding="utf-8")
    before = fingerprint(torch)
    torch.record = False
    torch.compile("c10", C10 + "int c10_new(void) { return 1; }\n")
    assert fingerprint(torch).symbols != before.symbols


def test_library_of_unknown_format_is_hashed(torch: Torch) -> None:
    torch.write("lib/libtorch.dylib", "\xcf\xfa one")
    before = fingerprint(torch)
    torch.write("lib/libtorch.dylib", "\xcf\xfa two")
    assert fingerprint(torch).symbols != before.symbols


def test_missing_library_of_record_is_error(torch: Torch) -> None:
    (torch.folder / "lib" / "libc10.so").unlink()
    with pytest.raises(BadArtifactError, match="cannot open this library") as error:
        fingerprint(torch)
    assert error.value.location.endswith("libc10.so")


def test_details_of_newest_five_fingerprints_are_kept(torch: Torch) -> None:
    names = []
    for answer in range(7):
        torch.write("include/c10/a.h", f"int c10_answer_{answer}(void);\n")
        names.append(fingerprint(torch).name)
        place = torch.reading.abi_folder / f"{names[-1]}.json.gz"
        os.utime(place, (answer, answer))
    kept = {path.name.partition(".")[0] for path in Path(torch.reading.abi_folder).iterdir()}
    assert kept == set(names[-5:])
    parts = abi_fingerprint_store_io.read_stored_parts(torch.reading.abi_folder, names[-1])
    assert parts
    assert parts.symbols["torch/lib/libc10.so"] == ("c10_answer",)
    assert set(parts.headers) == {
        *("torch/include/c10/a.h", "torch/share/cmake/Torch/TorchConfig.cmake"),
        "torch/utils/cpp_extension.py",
    }
    assert abi_fingerprint_store_io.read_stored_parts(torch.reading.abi_folder, names[0]) is None
    (Path(torch.reading.abi_folder) / f"{names[-1]}.json.gz").write_bytes(b"\x1f\x8bnothing")
    assert abi_fingerprint_store_io.read_stored_parts(torch.reading.abi_folder, names[-1]) is None


def test_rebuilt_torch_with_same_abi_reruns_no_extension(
    torch: Torch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, count = Bench(tmp_path, monkeypatch), iter(range(99))
    bench.asks = "always"
    bench.acts = {
        "deps": lambda: str(next(count)),  # so the wheel stage always runs
        "wheel": lambda: format_canonical_json(fingerprint(torch)),
    }
    bench.more = (bench.stage("extensions:toy", "wheel"),)

    def ran() -> list[str]:
        assert bench.doit() == 0
        return [name for name in bench.ran if name != "deps"]

    assert ran() == ["wheel", "extensions:toy"]
    torch.compile("c10", C10.replace("42", "43"))
    torch.compile("torch_cpu", LOCAL + CPU)
    assert ran() == ["wheel"]
    torch.compile("c10", C10 + "int c10_new(void) { return 1; }\n")
    assert ran() == ["wheel", "extensions:toy"]
    torch.compile("c10", C10)
    assert ran() == ["wheel", "extensions:toy"]
    torch.write("include/c10/a.h", "long c10_answer(void);\n")
    assert ran() == ["wheel", "extensions:toy"]
    assert ran() == ["wheel"]
