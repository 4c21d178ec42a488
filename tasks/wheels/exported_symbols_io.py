"""Read the symbols that a library exports, from ELF or from a Windows import library."""

import re
import struct
from pathlib import Path, PurePath
from typing import BinaryIO

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.core.model import Command
from tasks.system import shell
from tasks.wheels.dynamic_linkage_io import ELF_MAGIC, build_unreadable_error, open_elf

_ARCHIVE_SIGNATURE = b"!<arch>\n"
_LINKER_MEMBER_HEADER = 60  # bytes of the header before each member
_GLOBAL_BINDING, _WEAK_BINDINGS = 1, {2, 10}  # STB_GLOBAL; STB_WEAK, STB_GNU_UNIQUE
_EXPORTED_VISIBILITIES = {0, 3}  # STV_DEFAULT, STV_PROTECTED
_ANONYMOUS_NAMESPACES = (b"_GLOBAL__N_", b"?A0x")
_STD_SYMBOL = re.compile(rb"_Z(?:GV|T[VTIS])?Z?N?K?S[tabsiod]")
_FORMAT_SYMBOL = re.compile(rb"__(?:NULL_)?IMPORT_DESCRIPTOR|\x7f")


def read_exported_symbols(path: PurePath) -> frozenset[str] | None:
    """Return the symbols that an ELF or Windows import library exports, `None` for other formats.

    Symbols in an anonymous namespace and instantiations of C++ standard library templates are
    omitted, because no other library depends on them, and they would change the ABI fingerprint.
    """
    with Path(path).open("rb") as stream:
        magic = stream.read(len(_ARCHIVE_SIGNATURE))
        try:
            if magic.startswith(ELF_MAGIC):
                names = _read_elf_symbols(stream)
            elif magic == _ARCHIVE_SIGNATURE:
                names = _read_archive_symbols(stream)
            else:
                return None
        except (ValueError, struct.error) as error:
            raise build_unreadable_error(path, error) from error
    named = (n for n in names if not any(part in n for part in _ANONYMOUS_NAMESPACES))
    return frozenset(name.decode("utf-8", "backslashreplace") for name in named)


def demangle_symbol(name: str) -> tuple[str, str]:
    """Return the demangled `name`, first with its parameters, then without them."""

    def run_cxxfilt(*options: str) -> str:
        command = Command(("c++filt", *options, name), env, "demangle a symbol", timeout=10)
        try:
            return shell.capture_output(command).strip() or name
        except (CommandFailedError, MissingToolError):
            return name

    env = shell.build_host_env()
    return run_cxxfilt(), run_cxxfilt("-p")


def _read_elf_symbols(stream: BinaryIO) -> set[bytes]:
    with open_elf(stream) as elf:
        table = next(elf.iter_sections("SHT_DYNSYM"), None)
        if table is None or elf.elfclass != 64:
            raise ValueError("this is not a 64-bit library, or it has no dynamic symbol table")
        names = elf.get_section(table["sh_link"]).data()
        entry = "<IBBH16x" if elf.little_endian else ">IBBH16x"
        # Elf64_Sym: name, info, other, section, value, size. pyelftools is too slow: 40 µs for
        # each of the 76,000 symbols of libtorch_cpu
        exported = set()
        for start, info, other, section in struct.iter_unpack(entry, table.data()):
            if not section or other & 3 not in _EXPORTED_VISIBILITIES:
                continue
            name, binding = names[start : names.index(b"\0", start)], info >> 4
            is_weak = binding in _WEAK_BINDINGS and not _STD_SYMBOL.match(name)
            if binding == _GLOBAL_BINDING or is_weak:
                exported.add(name)
        return exported


def _read_archive_symbols(stream: BinaryIO) -> set[bytes]:
    """Return the symbols in the symbol table of an archive."""
    header = stream.read(_LINKER_MEMBER_HEADER)
    if not (header.startswith(b"/ ") and header.endswith(b"`\n")):
        raise ValueError("this import library does not begin with a list of symbols")
    size = int(header[48:58])
    member = stream.read(size)
    (count,) = struct.unpack_from(">I", member)  # followed by an offset of 4 bytes for each symbol
    names = member[4 + 4 * count :].split(b"\0")[:count]
    if len(names) != count or len(member) != size:
        raise ValueError("the list of symbols is truncated")
    return {name.removeprefix(b"__imp_") for name in names if not _FORMAT_SYMBOL.match(name)}
