"""Hash and copy source folders, without build outputs."""

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePath

from tasks.core.project import OUTPUT_FOLDER

# Build outputs only in a project's top folder: elsewhere, such names can be sources
_PROJECT_BUILD_FOLDERS = frozenset({"build", "dist", ".venv", "venv"})
_PROJECT_FILES = ("setup.py", "pyproject.toml")
_IGNORED_FOLDERS = frozenset({".git", ".hg", "__pycache__", OUTPUT_FOLDER})
_CUDA_SUFFIXES = frozenset({".cu", ".cuh"})  # the same suffixes as in torch.utils.cpp_extension
# Folders whose .cu files an extension does not build, including common header libraries
_FOREIGN_FOLDER = re.compile(
    r"\.?(?:tests?|testing|unit_?tests?|examples?|samples?|demos?|tutorials?|docs?|notebooks"
    r"|bench(?:mark)?s?|third[_-]?party|3rd[_-]?party|3p|extern(?:al)?s?|vendor(?:ed|s)?|deps"
    r"|dependencies|submodules|cutlass|glm|eigen|cub|thrust)",
    re.IGNORECASE,
)
_BUILD_FILES = (".ninja_log", "CMakeCache.txt")  # files that exist only in build folders


def hash_source_tree(folder: PurePath) -> str:
    """Return one sha256 of the relative paths and contents of all source files, in sorted order."""
    root = Path(folder)
    digest = hashlib.sha256()
    for path in sorted(_iterate_sources(root)):
        name = path.relative_to(root).as_posix().encode()
        content = path.read_bytes()
        digest.update(b"%d:%s%d:" % (len(name), name, len(content)) + content)
    return digest.hexdigest()


def has_cuda_sources(folder: PurePath) -> bool:
    """Return True if a source file is compiled by nvcc (.cu or .cuh)."""
    return any(path.suffix in _CUDA_SUFFIXES for path in _iterate_sources(Path(folder)))


def find_kernels(folder: PurePath) -> tuple[PurePath, ...]:
    """Return the paths of .cu files relative to `folder`, except in tests and third-party code."""
    sources = (path for path in _iterate_sources(Path(folder)) if path.suffix == ".cu")
    names = sorted(path.relative_to(folder) for path in sources)
    return tuple(name for name in names if not any(map(_FOREIGN_FOLDER.fullmatch, name.parts)))


def copy_source_tree(folder: PurePath, dest: PurePath) -> None:
    """Copy the sources to `dest`, which must not exist; links are copied as links."""
    top = str(folder)

    def list_build_outputs(place: str, names: list[str]) -> set[str]:
        return {name for name in names if _is_build_output(Path(place, name), at_top=place == top)}

    shutil.copytree(top, dest, symlinks=True, ignore=list_build_outputs)


def _iterate_sources(root: Path, *, at_top: bool = True) -> Iterator[Path]:
    for path in root.iterdir():
        if _is_build_output(path, at_top=at_top):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _iterate_sources(path, at_top=False)
        elif path.is_file():
            yield path


def _is_build_output(path: Path, *, at_top: bool) -> bool:
    if path.name in _IGNORED_FOLDERS or path.name.endswith(".egg-info"):
        return True
    if path.name in _PROJECT_BUILD_FOLDERS and (
        at_top or any((path.parent / name).is_file() for name in _PROJECT_FILES)
    ):
        return True
    return any((path / name).is_file() for name in _BUILD_FILES)
