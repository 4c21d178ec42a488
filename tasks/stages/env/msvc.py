"""Variables and flags that MSVC and nvcc need on Windows and that nobody else gives them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.core.deps_model import MsvcEnvironment
from tasks.knowledge.versions import parse_major_minor

# setuptools then takes the cl.exe of PATH and looks for no Visual Studio of its own; MSSdk is what
# its older releases ask for beside it. CMake looks for cc and gcc before it looks for cl, and finds
# those of Git, Strawberry Perl or MSYS2; as PyTorch's setup.py does it, the name alone is given:
# the one of PATH is ours, and cpp_extension before 2.14 breaks on a space in it. VSLANG has its
# programs speak English, as all that is read here does.
_MSVC_SETTINGS = {"DISTUTILS_USE_SDK": "1", "MSSDK": "1", "CC": "cl", "CXX": "cl", "VSLANG": "1033"}


def build_msvc_variables(captured: MsvcEnvironment | None) -> dict[str, str]:
    """What vcvarsall sets, and what has it used. Windows knows a name in any case: all are in
    capitals, so that none comes twice.
    """
    given = {name.upper(): value for name, value in captured.set.items()} if captured else {}
    return {**given, **_MSVC_SETTINGS}


def build_msvc_flags(toolkit: str, torch: str, *, extension: bool) -> dict[str, str]:
    """CL (cl.exe) and NVCC_APPEND_FLAGS (nvcc) for a toolkit's version and a release of torch."""
    pairs = list(_list_flag_pairs(toolkit, torch, extension=extension))
    if not pairs:
        return {}
    cl, nvcc = zip(*pairs, strict=True)
    return {"CL": " ".join(cl), "NVCC_APPEND_FLAGS": " ".join(nvcc)}


def _list_flag_pairs(toolkit: str, torch: str, *, extension: bool) -> Iterator[tuple[str, str]]:
    # CCCL of CUDA 13.2 refuses the traditional preprocessor, and torch does not ask for the other
    # one (pytorch#188761)
    if parse_major_minor(toolkit) >= (13, 2):
        yield "/Zc:preprocessor", "-Xcompiler /Zc:preprocessor"
    # torch's headers of 2.9 and later guard against error C2872 only where this is defined
    # (pytorch#188952); torch's own build defines it
    if extension and parse_major_minor(torch) >= (2, 9):
        yield "/DUSE_CUDA", "-DUSE_CUDA"
