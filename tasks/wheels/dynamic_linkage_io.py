"""Read the dynamic linkage of shared libraries: soname, needed libraries and search paths."""

import contextlib
import importlib
import json
import os
import platform
import re
import shutil
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, BinaryIO, cast

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile

from tasks.core.errors import BadArtifactError, CommandFailedError
from tasks.core.model import Command
from tasks.system import shell
from tasks.wheels.library_linkage import Linkage, SystemDlls

ELF_MAGIC = b"\x7fELF"


def read_elf_linkage(path: PurePath) -> Linkage | None:
    """Return the linkage of an ELF library, or None if the file has another format."""
    texts: dict[str, list[str]] = {"soname": [], "needed": [], "rpath": [], "runpath": []}
    with Path(path).open("rb") as stream:
        if stream.read(len(ELF_MAGIC)) != ELF_MAGIC:
            return None
        try:
            with open_elf(stream) as elf:
                dynamic = cast("Iterator[DynamicSegment]", elf.iter_segments("PT_DYNAMIC"))
                for tag in chain.from_iterable(segment.iter_tags() for segment in dynamic):
                    kind = str(tag.entry.d_tag).removeprefix("DT_").lower()
                    if kind in texts:
                        texts[kind].append(str(getattr(tag, kind)))
                machine = str(elf["e_machine"])
        except ValueError as error:
            raise build_unreadable_error(path, error) from error
    rpath, runpath = (":".join(texts[kind]).split(":") for kind in ("rpath", "runpath"))
    folders = tuple(filter(None, rpath)), tuple(filter(None, runpath))  # skip empty paths
    return Linkage(machine, "".join(texts["soname"]), tuple(texts["needed"]), *folders)


@contextlib.contextmanager
def open_elf(stream: BinaryIO) -> Iterator[ELFFile]:
    """Yield an open ELF file. Raises `ValueError` if the with block reads damaged data."""
    # imported only for reading: doit loads this module in each run
    from elftools.common.exceptions import ELFError  # noqa: PLC0415
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415

    try:
        yield ELFFile(stream)
    except (ELFError, AssertionError, OSError, OverflowError, MemoryError, struct.error) as error:
        raise ValueError(str(error) or "it contains an invalid size") from error


def build_unreadable_error(path: PurePath, what: object) -> BadArtifactError:
    """Return the error for a library that cannot be read because of `what`."""
    problem = f"the library cannot be read: {what}"
    hint = "replace the file, for example by installing its package again"
    return BadArtifactError(problem, location=str(path), hint=hint)


# `	libgomp.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libgomp.so.1` in every locale
_LDCONFIG_ENTRY = re.compile(r"^\s+(\S+) \(.*\) => (/.*)$", re.MULTILINE)


def read_loader_cache(env: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Return the paths of each library in the loader's cache, {} without a cache."""
    # the PATH of a user often lacks /sbin
    folders = os.pathsep.join([env.get("PATH", ""), "/usr/sbin", "/sbin"])
    program = shutil.which("ldconfig", path=folders)
    if program is None:
        return {}
    command = Command((program, "-p"), env, "list the system's libraries", timeout=60.0)
    paths: dict[str, tuple[str, ...]] = {}
    with contextlib.suppress(CommandFailedError):
        for name, path in _LDCONFIG_ENTRY.findall(shell.capture_output(command)):
            paths[name] = (*paths.get(name, ()), path)
    return paths


def list_loader_folders() -> tuple[str, ...]:
    """Return the default directories of the loader, which it searches last."""
    debian = f"{platform.machine()}-linux-gnu"
    return (f"/lib/{debian}", f"/usr/lib/{debian}", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


def read_manylinux_libraries() -> frozenset[str] | None:
    """Return the libraries ("libz.so.1") that every manylinux system has, or None if unknown."""
    file = resources.files("auditwheel") / "policy" / "manylinux-policy.json"
    try:
        policies = json.loads(file.read_text(encoding="utf-8"))
        allowed = [set(p["lib_whitelist"]) for p in policies if p["name"].startswith("manylinux_")]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return frozenset(set.intersection(*allowed)) if allowed else None


def set_rpath(program: PurePath, library: Path, folders: Sequence[str], log: PurePath) -> None:
    """Set the RPATH of `library` to `folders` with patchelf; remove any other RPATH and RUNPATH."""
    rpath = ("--force-rpath", "--set-rpath", ":".join(folders)) if folders else ("--remove-rpath",)
    argv, purpose = (str(program), *rpath, str(library)), f"set the RPATH of {library.name}"
    shell.run_command(Command(argv, shell.build_host_env(), purpose, log=log))


_DOS_MAGIC = b"MZ"
_IMPORT_TABLES = ("IMPORT", "DELAY_IMPORT")  # DLLs loaded with the file, and at the first call


def read_needed_dlls(path: Path) -> tuple[str, ...] | None:
    """Return the lower-case names of the DLLs that a PE file needs, None for other formats."""
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
    """Group x86-64 DLLs by their provider. Return None if delvewheel's lists are unreadable."""
    dlls = frozenset(names)
    try:
        lists: Any = importlib.import_module("delvewheel._dll_list")
        windows = dlls & frozenset(lists.ignore_names_x64)
        matched = {n for n in dlls if any(regex.fullmatch(n) for regex in lists.ignore_regexes)}
        runtime = frozenset(n for n in dlls if lists.vc_redist.fullmatch(n))
    except (ImportError, AttributeError, TypeError):
        return None
    # CPython for Windows contains the last three DLLs
    python = frozenset(n for n in matched if n.startswith(("python", "libpypy")))
    python |= dlls & {"python3.dll", "vcruntime140.dll", "vcruntime140_1.dll"}
    return SystemDlls(windows | (matched - python), python, runtime - python)
