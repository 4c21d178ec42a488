"""A CUDA_HOME out of NVIDIA's Python packages, as nvcc, CMake and cpp_extension expect one.

The packages lie in site-packages/nvidia/cu13/{bin,include,lib,nvvm}. What a toolkit has beyond that
is `lib64` and the names that linkers look for (libcudart.so beside libcudart.so.13). nvcc finds its
own folders from where it lies, so its programs are hard links or copies and never symbolic links.
On Windows the packages' own layout is complete.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

from tasks.core.errors import MissingToolError
from tasks.system import files

_LIBRARY_PACKAGES = ("cudnn", "nccl", "cusparselt", "nvshmem")


def assemble_cuda_home(site_packages: PurePath, home: PurePath) -> Path:
    """Make `home` from the packages under `site_packages`; returns CUDA_HOME."""
    toolkit = find_packages_root(site_packages)
    if sys.platform == "win32":
        return toolkit
    files.remove_owned(home)
    tree = files.create_owned_folder(home)
    _copy_programs(toolkit / "bin", tree / "bin")
    (tree / "nvvm").symlink_to(toolkit / "nvvm")
    (tree / "lib64").mkdir()
    (tree / "lib").symlink_to("lib64")
    _link_headers(toolkit, tree)
    link_new_libraries(site_packages, home)
    return tree


def find_packages_root(site_packages: PurePath) -> Path:
    """The folder nvidia/cuNN that holds nvcc."""
    for nvcc in sorted(Path(site_packages).glob("nvidia/cu*/bin/nvcc*"), reverse=True):
        if nvcc.stem == "nvcc" and nvcc.suffix in {"", ".exe"}:
            return nvcc.parent.parent
    raise MissingToolError(
        "the CUDA packages that were installed hold no nvcc",
        location=str(site_packages),
        hint="choose toolkit.version 13.0 or later: older packages lack it",
    )


def link_new_libraries(site_packages: PurePath, home: PurePath) -> None:
    """Link what was installed since: torch brings cuBLAS and others that an extension may link
    with.
    """
    if sys.platform == "win32" or not files.is_owned(home):
        return
    lib64 = Path(home) / "lib64"
    for library in _list_libraries(Path(site_packages)):
        _link_if_missing(lib64 / library.name, str(library))
        if ".so." in library.name:
            _link_if_missing(lib64 / f"{library.name.partition('.so.')[0]}.so", library.name)


def _list_libraries(site_packages: Path) -> Iterator[Path]:
    yield from sorted(find_packages_root(site_packages).glob("lib/lib*"))
    for name in _LIBRARY_PACKAGES:
        yield from sorted(site_packages.glob(f"nvidia/{name}/lib/lib*"))


def _link_if_missing(place: Path, to: str) -> None:
    if not place.is_symlink() and not place.exists():
        place.symlink_to(to)


def _copy_programs(source: Path, dest: Path) -> None:
    def link_or_copy(original: str, copy: str) -> None:
        try:
            os.link(original, copy)
        except OSError:
            shutil.copy2(original, copy)

    shutil.copytree(source, dest, copy_function=link_or_copy)


def _link_headers(toolkit: Path, tree: Path) -> None:
    """One link where all headers lie in one folder, so that later packages show; else a link for
    each header.
    """
    folders = [
        toolkit / "include",
        *(toolkit.parent / name / "include" for name in _LIBRARY_PACKAGES),
    ]
    present = [folder for folder in folders if folder.is_dir()]
    if len(present) == 1:
        (tree / "include").symlink_to(present[0])
        return
    (tree / "include").mkdir()
    for folder in present:
        for header in sorted(folder.iterdir()):
            _link_if_missing(tree / "include" / header.name, str(header))
