"""Exported symbols: from ELF dynamic symbols or a Windows import library."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tasks.core.errors import BadArtifactError
from tasks.system import shell
from tasks.wheels import exported_symbols_io
from tests.support.sharedlibrary import compile_library, linux

SOURCE = """
int function(void) { return 1; }
int variable = 2;
int unset;
__attribute__((weak)) int weak(void) { return 3; }
__attribute__((visibility("protected"))) int guarded(void) { return 4; }
__attribute__((visibility("hidden"))) int hidden(void) { return 5; }
static int local(void) { return 6; }
extern int elsewhere(void);
int all(void) { return hidden() + local() + elsewhere(); }
"""


@linux
def test_defined_visible_symbols_are_exported(tmp_path: Path) -> None:
    found = exported_symbols_io.read_exported_symbols(compile_library(tmp_path / "liba.so", SOURCE))
    assert found is not None
    ours = {"function", "variable", "unset", "weak", "guarded", "all"}
    assert ours <= found
    assert not found & {"hidden", "local", "elsewhere"}


@linux
@pytest.mark.parametrize(
    ("name", "attribute", "kept"),
    [
        ("_ZNSt6vectorIiSaIiEE17_M_realloc_insert", "weak", False),
        ("_ZTVSt15_Sp_counted_ptrI", "weak", False),
        ("_ZTINSt6thread", "weak", False),
        ("_ZNSt6vectorIiSaIiEE17_M_realloc_insert", "used", True),
        ("_ZN3c104ListIiE5clearEv", "weak", True),
        ("_ZN2at43_GLOBAL__N__c5333101_10_SoftMax_cu_75209b9c4poolEv", "weak", False),
        ("_ZN2at43_GLOBAL__N__c5333101_10_SoftMax_cu_75209b9c4poolEv", "used", False),
    ],
)
def test_symbols_generated_from_function_bodies_are_ignored(
    tmp_path: Path, name: str, attribute: str, kept: bool
) -> None:
    source = f'__attribute__(({attribute})) int f(void) __asm__("{name}");\n'
    found = exported_symbols_io.read_exported_symbols(
        compile_library(tmp_path / "liba.so", f"{source}int f(void) {{}}\n")
    )
    assert found is not None
    assert (name in found) is kept


@linux
def test_hundred_thousand_symbols_are_read_completely(tmp_path: Path) -> None:
    names = [f"function_with_a_name_as_long_as_they_are_{number}" for number in range(100_000)]
    code = "\n".join(f".globl {name}\n{name}:" for name in names)
    path = tmp_path / "liba.so"
    assembled = tmp_path / "a.s"
    assembled.write_text(f".data\n{code}\n.byte 0\n", encoding="utf-8")
    subprocess.run(["cc", "-shared", "-nostdlib", "-o", str(path), str(assembled)], check=True)
    found = exported_symbols_io.read_exported_symbols(path)
    assert found is not None
    assert set(names) <= found


@pytest.mark.parametrize("content", [b"", b"MZ\x90\0", b"\xcf\xfa\xed\xfe", b"GROUP ( libc.so.6 )"])
def test_other_file_format_has_no_symbols(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lib"
    path.write_bytes(content)
    assert exported_symbols_io.read_exported_symbols(path) is None


@linux
def test_damaged_library_is_named(tmp_path: Path) -> None:
    path = compile_library(tmp_path / "liba.so", SOURCE)
    whole = path.read_bytes()
    types = whole.replace(struct.pack("<II", 11, 2), struct.pack("<II", 1, 2))  # SHT_DYNSYM
    assert types != whole
    for damaged in (whole[:20], whole[:500], whole[:-900], types):
        path.write_bytes(damaged)
        with pytest.raises(BadArtifactError, match="cannot be read") as error:
            exported_symbols_io.read_exported_symbols(path)
        assert error.value.location == str(path)


FORMAT = ["__IMPORT_DESCRIPTOR_c10", "__NULL_IMPORT_DESCRIPTOR", "\x7fc10_NULL_THUNK_DATA"]
NAMED = ["?say@c10@@YAXXZ", "__imp_?say@c10@@YAXXZ", "__imp_?data@c10@@3HA", "?f@?A0x1b@c10@@YAXXZ"]


def archive(names: list[str], claimed: int | None = None) -> bytes:
    """Create an import library like lib.exe: the first linker member, without objects."""
    text = b"".join(name.encode() + b"\0" for name in names)
    member = struct.pack(f">I{len(names)}I", claimed or len(names), *range(len(names))) + text
    header = f"{'/':<16}{'-1':<12}{'':<12}{'0':<8}{len(member):<10}`\n"
    return b"!<arch>\n" + header.encode() + member


def test_import_library_lists_exports_of_its_dll(tmp_path: Path) -> None:
    path = tmp_path / "c10.lib"
    path.write_bytes(archive(FORMAT + NAMED))
    assert exported_symbols_io.read_exported_symbols(path) == frozenset(
        {"?say@c10@@YAXXZ", "?data@c10@@3HA"}
    )


@pytest.mark.parametrize(
    "content",
    [
        archive(NAMED)[:80],
        archive(NAMED)[:-4],
        archive(NAMED, claimed=9),
        archive(NAMED, claimed=1 << 31),
        archive(NAMED).replace(b"/ ", b"a "),
        archive(NAMED).replace(b"`\n", b"  "),
        archive(["x" * 90]).replace(b"99 ", b"9x "),
        b"!<arch>\n",
        b"!<arch>\n" + b"/" + b" " * 59,
    ],
)
def test_damaged_import_library_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c10.lib"
    path.write_bytes(content)
    with pytest.raises(BadArtifactError, match="cannot be read") as error:
        exported_symbols_io.read_exported_symbols(path)
    assert error.value.location == str(path)


@pytest.mark.skipif(not shutil.which("llvm-dlltool"), reason="not run: needs llvm-dlltool")
def test_import_library_from_a_real_tool_is_read(tmp_path: Path) -> None:
    listed, path = tmp_path / "c10.def", tmp_path / "c10.lib"
    listed.write_text("LIBRARY c10.dll\nEXPORTS\nsay\nanswer DATA\n", encoding="utf-8")
    argv = ["llvm-dlltool", "-m", "i386:x86-64", "-d", str(listed), "-l", str(path)]
    subprocess.run(argv, check=True)
    assert exported_symbols_io.read_exported_symbols(path) == frozenset({"say", "answer"})


@pytest.mark.skipif(not shutil.which("c++filt"), reason="not run: needs c++filt")
def test_symbol_is_demangled() -> None:
    name = "_ZN3c106detail14torchCheckFailEPKcS2_j"
    whole = "c10::detail::torchCheckFail(char const*, char const*, unsigned int)"
    assert exported_symbols_io.demangle_symbol(name) == (whole, "c10::detail::torchCheckFail")
    assert exported_symbols_io.demangle_symbol("c10_answer") == ("c10_answer", "c10_answer")


def test_symbol_stays_mangled_without_a_demangler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "build_host_env", lambda: {"PATH": ""})
    assert exported_symbols_io.demangle_symbol("_ZN3c106detailEv") == (
        "_ZN3c106detailEv",
        "_ZN3c106detailEv",
    )
