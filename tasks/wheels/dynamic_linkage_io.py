"""Read the dynamic linkage of shared libraries: soname, needed libraries and search paths.

Format: the dynamic section, https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.dynamic.html.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import shutil
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from tasks.core.errors import BadArtifactError, CommandFailedError
from tasks.core.model import Command
from tasks.system import shell
from tasks.wheels.library_linkage import Linkage, SystemDlls

if TYPE_CHECKING:
    from elftools.elf.dynamic import DynamicSegment, DynamicTag
    from elftools.elf.elffile import ELFFile

ELF_MAGIC = b"\x7fELF"


def read_elf_linkage(path: PurePath) -> Linkage | None:
    """Return the linkage of a file, None if it is not ELF (Windows, macOS, a linker script).

    Raises `BadArtifactError` if an ELF file is unreadable, `OSError` if the file does not exist.
    """
    with Path(path).open("rb") as stream:
        if stream.read(len(ELF_MAGIC)) != ELF_MAGIC:
            return None
        try:
            with open_elf(stream) as elf:
                dynamic = cast("Iterator[DynamicSegment]", elf.iter_segments("PT_DYNAMIC"))
                tags = [tag for segment in dynamic for tag in segment.iter_tags()]
                machine = str(elf["e_machine"])
        except ValueError as error:
            raise build_unreadable_error(path, error) from error
    return Linkage(
        machine,
        soname="".join(_read_tags(tags, "DT_SONAME")),
        needed=_read_tags(tags, "DT_NEEDED"),
        rpath=_read_folder_tags(tags, "DT_RPATH"),
        runpath=_read_folder_tags(tags, "DT_RUNPATH"),
    )


@contextmanager
def open_elf(stream: BinaryIO) -> Iterator[ELFFile]:
    """Yield an ELF file for reading.

    Raises `ValueError` if the file is damaged, also inside the block: pyelftools reads lazily.
    """
    # imported here: doit checks on each run if a wheel is up to date, without reading it
    from elftools.common.exceptions import ELFError  # noqa: PLC0415
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415

    try:
        yield ELFFile(stream)
    except (ELFError, AssertionError, OSError, OverflowError, MemoryError, struct.error) as error:
        raise ValueError(str(error) or "it contains an invalid size") from error


def build_unreadable_error(path: PurePath, what: object) -> BadArtifactError:
    """Return the error for a damaged library."""
    return BadArtifactError(
        f"the library cannot be read: {what}",
        location=str(path),
        hint="replace the file, for example by installing its package again",
    )


def _read_tags(tags: Sequence[DynamicTag], kind: str) -> tuple[str, ...]:
    attribute = kind.removeprefix("DT_").lower()
    return tuple(str(getattr(tag, attribute)) for tag in tags if tag.entry.d_tag == kind)


def _read_folder_tags(tags: Sequence[DynamicTag], kind: str) -> tuple[str, ...]:
    """Return the directories of a tag; empty ones are padding after a change."""
    return tuple(part for text in _read_tags(tags, kind) for part in text.split(":") if part)


# `	libgomp.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libgomp.so.1`, the same in every locale
_LDCONFIG_ENTRY = re.compile(r"^\s+(\S+) \(.*\) => (/.*)$", re.MULTILINE)
_LDCONFIG_TIMEOUT = 60.0


def read_loader_cache(env: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Return a mapping from library names to the files in the loader's cache, best first.

    It is empty if the system has no cache (musl, Nix); only the loader's directories remain then.
    """
    # /sbin is often missing from the PATH of an ordinary user
    places = os.pathsep.join([env.get("PATH", ""), "/usr/sbin", "/sbin"])
    program, purpose = shutil.which("ldconfig", path=places), "list the system's libraries"
    if program is None:
        return {}
    try:
        listing = shell.capture_output(
            Command((program, "-p"), env, purpose, timeout=_LDCONFIG_TIMEOUT)
        )
    except CommandFailedError:
        return {}
    return parse_ldconfig_listing(listing)


def parse_ldconfig_listing(listing: str) -> Mapping[str, tuple[str, ...]]:
    """Return the files of each library in the output of `ldconfig -p`, one per architecture."""
    paths: dict[str, tuple[str, ...]] = {}
    for name, path in _LDCONFIG_ENTRY.findall(listing):
        paths[name] = (*paths.get(name, ()), path)
    return paths


def list_loader_folders() -> tuple[str, ...]:
    """Return the directories that the loader searches last, whatever its cache contains."""
    debian = f"{platform.machine()}-linux-gnu"
    return (f"/lib/{debian}", f"/usr/lib/{debian}", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


def read_manylinux_libraries() -> frozenset[str] | None:
    """Return the names ("libz.so.1") that every auditwheel policy allows, None if unreadable."""
    file = resources.files("auditwheel") / "policy" / "manylinux-policy.json"
    try:
        policies = json.loads(file.read_text(encoding="utf-8"))
        allowed = [set(p["lib_whitelist"]) for p in policies if p["name"].startswith("manylinux_")]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return frozenset(set.intersection(*allowed)) if allowed else None


def set_rpath(program: PurePath, library: Path, folders: Sequence[str], log: PurePath) -> None:
    """Set the RPATH of `library` to these directories and remove its RUNPATH.

    Without directories, both are removed. Raises `CommandFailedError`.
    """
    rpath = ("--force-rpath", "--set-rpath", ":".join(folders)) if folders else ("--remove-rpath",)
    argv, purpose = (str(program), *rpath, str(library)), f"set the RPATH of {library.name}"
    shell.run_command(Command(argv, shell.build_host_env(), purpose, log=log))


_DOS_MAGIC = b"MZ"
_IMPORT_TABLES = ("IMPORT", "DELAY_IMPORT")  # needed at load time, and at the first call


def read_needed_dlls(path: Path) -> tuple[str, ...] | None:
    """Return the DLLs that a file needs, in lower case, None if it is not a PE file.

    Windows compares DLL names without case. Raises `BadArtifactError` if a PE file is unreadable.
    """
    with path.open("rb") as stream:
        if stream.read(len(_DOS_MAGIC)) != _DOS_MAGIC:
            return None
    import pefile  # noqa: PLC0415 - slow to import

    kinds = [pefile.DIRECTORY_ENTRY[f"IMAGE_DIRECTORY_ENTRY_{name}"] for name in _IMPORT_TABLES]
    try:
        with pefile.PE(str(path), fast_load=True) as image:
            image.parse_data_directories(directories=kinds)
            tables = [getattr(image, f"DIRECTORY_ENTRY_{name}", ()) for name in _IMPORT_TABLES]
            names = [e.dll.decode("ascii", "replace") for table in tables for e in table]
            return tuple(dict.fromkeys(map(str.lower, names)))
    except pefile.PEFormatError as error:
        raise build_unreadable_error(path, error) from error


def classify_dlls(names: Iterable[str]) -> SystemDlls | None:
    """Return the origin of these x86-64 DLLs, None if delvewheel's lists have an unknown format."""
    dlls = frozenset(names)
    try:
        lists: Any = importlib.import_module("delvewheel._dll_list")
        ignored = lists.ignore_regexes
        windows = frozenset(lists.ignore_names_x64)
        matched = frozenset(n for n in dlls if any(regex.fullmatch(n) for regex in ignored))
        runtime = frozenset(n for n in dlls if lists.vc_redist.fullmatch(n))
    except (ImportError, AttributeError, TypeError):
        return None
    python = frozenset(n for n in matched if n.startswith(("python", "libpypy")))
    # CPython for Windows ships them
    python |= dlls & {"python3.dll", "vcruntime140.dll", "vcruntime140_1.dll"}
    return SystemDlls((dlls & windows) | (matched - python), python, runtime - python)
