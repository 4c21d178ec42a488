"""Machine code read from library headers; test_fatbin_nvcc compares it with nvcc's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tasks.core.errors import BadArtifactError
from tasks.core.model import Arch
from tasks.wheels import machine_code_io
from tasks.wheels.machine_code_io import MachineCodeImages
from tests.support.fatbins import archive, elf, library, pe
from tests.support.fatbins import fatbin as container


def images_of(*images: str) -> MachineCodeImages:
    """Return the machine code of a library with these images."""
    cubins = [Arch.parse_capability(text) for text in images if not text.endswith("+PTX")]
    ptx = [Arch.parse_capability(text[:-4]) for text in images if text.endswith("+PTX")]
    return MachineCodeImages(Counter(cubins), Counter(ptx))


def read(folder: Path, content: bytes) -> MachineCodeImages:
    path = folder / "lib.so"
    path.write_bytes(content)
    return machine_code_io.read_fatbin_images(path)


def test_images_are_counted_by_arch_and_kind(tmp_path: Path) -> None:
    images = ("9.0", "9.0a", "12.0f", "12.0", "12.0", "12.0+PTX")
    assert machine_code_io.read_fatbin_images(library(tmp_path / "lib.so", *images)) == images_of(
        *images
    )


def test_zero_padded_consecutive_containers_are_read(tmp_path: Path) -> None:
    section = container("8.0") + b"\0" * 8 + container("8.0", "9.0", header=112)
    assert read(tmp_path, elf({".nv_fatbin": section})) == images_of("8.0", "8.0", "9.0")


def test_relocatable_code_counts_only_if_there_is_no_other(
    tmp_path: Path,
) -> None:
    loose = {"__nv_relfatbin": container("8.0", "9.0+PTX")}
    assert read(tmp_path, elf(loose)) == images_of("8.0", "9.0+PTX")
    assert read(tmp_path, elf({**loose, ".nv_fatbin": container("9.0")})) == images_of("9.0")


def test_dll_section_name_is_truncated_to_eight_characters(tmp_path: Path) -> None:
    code = pe({".text": b"\xc3", ".nv_fatbin": container("12.0"), ".nvFatBinSegment": b"\0" * 24})
    assert b".nv_fatb" in code
    assert b".nv_fatbin" not in code
    assert read(tmp_path, code) == images_of("12.0")


def test_static_library_is_read_member_by_member(tmp_path: Path) -> None:
    objects = [elf({".nv_fatbin": container(arch)}) for arch in ("8.0", "9.0")]
    content = archive([b"odd", *objects])
    assert read(tmp_path, content) == images_of("8.0", "9.0")


def test_file_without_device_code_has_no_images(tmp_path: Path) -> None:
    for content in (b"", b"#!/bin/sh\n", b"MZ".ljust(100, b"\0"), elf({".text": b"\xc3"})):
        assert read(tmp_path, content) == images_of()
        assert not machine_code_io.has_device_code(tmp_path / "lib.so")
    assert machine_code_io.has_device_code(library(tmp_path / "cuda.so", "9.0"))


def test_other_image_kinds_are_not_counted_as_code(tmp_path: Path) -> None:
    section = bytearray(container("9.0", "9.0"))
    section[16] = 8  # LTO
    assert read(tmp_path, elf({".nv_fatbin": bytes(section)})) == images_of("9.0")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (4, 2, "a fatbin of version 2 is damaged or unsupported"),
        (8, 255, "a fatbin of version 1 is damaged or unsupported"),
        (20, 8, "the machine code at offset .* is damaged or unsupported"),
        (58, 0x30, "the machine code at offset .* is damaged or unsupported"),
    ],
)
def test_unknown_format_is_refused(tmp_path: Path, place: int, value: int, message: str) -> None:
    """Container version, container size, image header, and both suffixes at once."""
    section = bytearray(container("9.0"))
    section[place] = value
    with pytest.raises(BadArtifactError, match=message) as caught:
        read(tmp_path, elf({".nv_fatbin": bytes(section)}))
    assert "cuobjdump" in caught.value.hint
    assert caught.value.location == str(tmp_path / "lib.so")


def test_damaged_file_is_named(tmp_path: Path) -> None:
    whole = elf({".nv_fatbin": container("9.0")})
    for content in (whole[:40], whole[:-70], pe({"x": b"12"})[:0x60], archive([whole])[:90]):
        with pytest.raises(BadArtifactError, match=r"lib\.so: the machine code .* cannot be read"):
            read(tmp_path, content)


def test_missing_library_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadArtifactError, match=r"gone\.so: the library does not exist"):
        machine_code_io.read_fatbin_images(tmp_path / "gone.so")
