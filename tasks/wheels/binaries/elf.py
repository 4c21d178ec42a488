"""What a shared library tells the loader: its name, what it needs, and where to look for that.

It searches for nothing; who finds what is judged in `tasks.wheels.linking.linkage`. Format: the
dynamic section, https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.dynamic.html.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING

from tasks.core.errors import BadArtifactError
from tasks.wheels.linking.values import Linkage

if TYPE_CHECKING:
    from elftools.elf.dynamic import DynamicTag

_ELF_MAGIC = b"\x7fELF"


def read_elf_linkage(path: PurePath) -> Linkage | None:
    """The linkage of a file, None where it is no ELF file (Windows, macOS, a linker script).

    Raises `BadArtifactError` where it begins as one and cannot be read, `OSError` where there is
    no such file.
    """
    with Path(path).open("rb") as stream:
        if stream.read(len(_ELF_MAGIC)) != _ELF_MAGIC:
            return None
        return _parse_linkage(stream, path)


def _parse_linkage(stream: IO[bytes], path: PurePath) -> Linkage:
    # imported here: a wheel that is up to date is not read, and doit asks for that each time
    from elftools.common.exceptions import ELFError  # noqa: PLC0415
    from elftools.elf.dynamic import DynamicSegment  # noqa: PLC0415
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415

    try:
        elf = ELFFile(stream)
        dynamic = [part for part in elf.iter_segments() if isinstance(part, DynamicSegment)]
        tags = [tag for segment in dynamic for tag in segment.iter_tags()]
        machine = str(elf["e_machine"])
    except (ELFError, AssertionError, ValueError, OSError, OverflowError) as error:
        # what pyelftools stumbles over in a damaged file: it seeks where the file says
        raise BadArtifactError(
            f"this library cannot be read: {error}",
            location=str(path),
            hint="see how it came there",
        ) from error
    return Linkage(
        machine,
        soname="".join(_read_tags(tags, "DT_SONAME")),
        needed=_read_tags(tags, "DT_NEEDED"),
        rpath=_read_folder_tags(tags, "DT_RPATH"),
        runpath=_read_folder_tags(tags, "DT_RUNPATH"),
    )


def _read_tags(tags: Sequence[DynamicTag], kind: str) -> tuple[str, ...]:
    attribute = kind.removeprefix("DT_").lower()
    return tuple(str(getattr(tag, attribute)) for tag in tags if tag.entry.d_tag == kind)


def _read_folder_tags(tags: Sequence[DynamicTag], kind: str) -> tuple[str, ...]:
    """What is shortened after linking is padded with colons; an empty folder would be the current
    one.
    """
    return tuple(part for text in _read_tags(tags, kind) for part in text.split(":") if part)
