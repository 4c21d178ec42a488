from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tasks.core.errors import BadArtifactError
from tasks.core.model import Arch
from tasks.knowledge.machine_code_rules import MachineCode
from tasks.wheels import machine_code_io

posix = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")

LISTING = """\
ELF file    1: _C.cpython-311-x86_64-linux-gnu.1.sm_120.cubin
ELF file    2: k.sm_90.2.sm_120a.cubin
ELF file   10: k.3.sm_120.cubin
PTX file    1: k.1.sm_90.ptx
cuobjdump info    : No PTX file found to extract from 'x.so'. You may try with -all option.
"""


def archs(text: str) -> frozenset[Arch]:
    return frozenset(Arch.parse_capability(item) for item in text.split())


def cuobjdump(folder: Path, script: str) -> str:
    """Create a fake cuobjdump that prints recorded output."""
    program = folder / "cuobjdump"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "lib.so"
    path.write_bytes(b"\x7fELF")
    return path


def test_images_are_counted_by_arch() -> None:
    found = machine_code_io.parse_cuobjdump_listing(LISTING)
    assert found.cubins == {Arch(12, 0): 2, Arch(12, 0, "a"): 1}
    assert found.ptx == {Arch(9, 0): 1}
    assert found.code == MachineCode(archs("12.0 12.0a"), archs("9.0"))


def test_archs_of_single_kernels_are_not_common() -> None:
    lines = [f"ELF file {n}: lib.{n}.sm_120.cubin" for n in range(476)]
    found = machine_code_io.parse_cuobjdump_listing(
        "\n".join([*lines, "ELF file 477: lib.477.sm_90a.cubin"])
    )
    assert found.code.cubins == archs("12.0 9.0a")
    assert found.common_code == MachineCode(archs("12.0"))
    assert machine_code_io.parse_cuobjdump_listing("").common_code == MachineCode()


@posix
def test_image_list_is_read_from_one_cuobjdump_run(tmp_path: Path, library: Path) -> None:
    tool = cuobjdump(tmp_path, f'echo "$@" >> {tmp_path}/argv; cat <<"END"\n{LISTING}END')
    assert machine_code_io.MachineCodeReader(tool).read_images(library).code.cubins == archs(
        "12.0 12.0a"
    )
    assert (tmp_path / "argv").read_text() == f"-lelf -lptx {library}\n"


@posix
def test_library_without_device_code_is_no_error(tmp_path: Path, library: Path) -> None:
    text = f"cuobjdump info    : File '{library}' does not contain device code"
    tool = cuobjdump(tmp_path, f'echo "{text}" >&2; exit 255')
    assert machine_code_io.MachineCodeReader(tool).read_images(library).code == MachineCode()


@posix
def test_file_unreadable_by_cuobjdump_is_named(tmp_path: Path, library: Path) -> None:
    tool = cuobjdump(tmp_path, 'echo "cuobjdump fatal   : Invalid fatbin header" >&2; exit 1')
    with pytest.raises(
        BadArtifactError, match=r"lib\.so: .*Invalid fatbin header\n.*to see the output, run: "
    ):
        machine_code_io.MachineCodeReader(tool).read_images(library)


def test_missing_library_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadArtifactError, match=r"gone\.so: the library does not exist"):
        machine_code_io.MachineCodeReader("cuobjdump").read_images(tmp_path / "gone.so")
