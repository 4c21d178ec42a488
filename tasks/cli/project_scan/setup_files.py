"""Find the CUDA extensions below a folder from their setup.py files, which are never executed."""

import ast
import os
import re
import warnings
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.project import OUTPUT_FOLDER
from tasks.settings.values import MODULE_PATTERN
from tasks.stages.extensions.extension_code_io import Project as SourceProject

MAX_DEPTH, MAX_FOLDERS, MAX_SETUP_FILES = 5, 5_000, 50
MAX_BYTES = 1_000_000  # of a file that is read
_SETUP_NAME = "setup.py"
_SKIPPED_FOLDERS = frozenset(
    {"build", "dist", "site-packages", "node_modules", "__pycache__", OUTPUT_FOLDER}
)
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
_CUDA_CLASS, _CPP_CLASS = "CUDAExtension", "CppExtension"
_CUDA_TEXT = re.compile(rf"^[^#\n]*\b{_CUDA_CLASS}\s*\(", re.MULTILINE)
_IMPORT_TEXT = re.compile(rf"\b{_CUDA_CLASS}\s*\(\s*(?:name\s*=\s*)?[\"']([\w.]+)[\"']")


@dataclass(frozen=True)
class SetupFile:
    """A setup.py that builds a CUDA extension.

    `folder` is relative to the project. `distribution` is the name in the metadata, else that of
    the folder. `modules` are the compiled modules whose names are literals.
    """

    folder: PurePath
    distribution: str
    modules: tuple[str, ...]


def find_setup_files(root: Path) -> list[SetupFile]:
    """Return the CUDA extensions below `root`, sorted by folder, without those inside another one.

    Links to folders are not followed. The search is limited in depth and in the number of folders;
    folders near the root come first, so that a large data set does not hide an extension.
    """
    found: list[SetupFile] = []
    pending = deque([root])
    for _ in range(MAX_FOLDERS):
        if not pending or len(found) >= MAX_SETUP_FILES:
            break
        folder = pending.popleft()
        depth = len(folder.relative_to(root).parts)
        names, folders = _list_folder(folder)
        if depth and any(mark in (*names, *folders) for mark in _ENVIRONMENT_MARKS):
            continue
        setup = read_setup_file(root, folder) if _SETUP_NAME in names else None
        found += [setup] if setup else []
        if depth < MAX_DEPTH and not (setup and depth):
            pending += (folder / name for name in folders if not _is_skipped(name))
    return sorted(found, key=lambda one: one.folder)


def _list_folder(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the files, and those of the folders that are no links."""
    try:
        with os.scandir(folder) as entries:
            kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        return [], []
    names = sorted(kinds)
    return [one for one in names if not kinds[one]], [one for one in names if kinds[one]]


def _is_skipped(name: str) -> bool:
    return name in _SKIPPED_FOLDERS or name.startswith(".") or name.endswith(".egg-info")


def read_setup_file(root: Path, folder: Path) -> SetupFile | None:
    """Return the CUDA extension that the setup.py in `folder` builds, or None."""
    text = read_small_file(folder / _SETUP_NAME)
    if not any(name in text for name in (_CUDA_CLASS, _CPP_CLASS)):
        return None
    modules = parse_cuda_modules(text)
    if modules is None:
        return None
    distribution = ""
    with suppress(OSError, TypeError, RecursionError, MemoryError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the user's code, such as an invalid escape sequence
        distribution = SourceProject(folder, folder / _SETUP_NAME).name
    name = distribution or folder.resolve().name
    return SetupFile(folder.relative_to(root), name, modules)


def parse_cuda_modules(text: str) -> tuple[str, ...] | None:
    """Return the literal names of the compiled modules, or None if nothing is compiled for CUDA."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # for example Python 2
        names = tuple(dict.fromkeys(_IMPORT_TEXT.findall(text)))
        return names if _CUDA_TEXT.search(text) else None
    classes = _find_local_names(nodes)
    used = {classes[name] for node in nodes if (name := _read_used_name(node)) in classes}
    strings = [node.value for node in nodes if isinstance(node, ast.Constant)]
    has_kernels = any(isinstance(text, str) and text.endswith(".cu") for text in strings)
    if _CUDA_CLASS not in used and not (_CPP_CLASS in used and has_kernels):
        return None
    calls = (node for node in nodes if isinstance(node, ast.Call))
    names = tuple(
        _read_module_name(call) for call in calls if _read_used_name(call.func) in classes
    )
    return tuple(dict.fromkeys(name for name in names if re.match(MODULE_PATTERN, name)))


def _find_local_names(nodes: list[ast.AST]) -> dict[str, str]:
    """Return the class of each imported name, and of each variable that it is assigned to."""
    names = {name: name for name in (_CUDA_CLASS, _CPP_CLASS)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            aliases = (one for one in node.names if one.name in names)
            names |= {one.asname or one.name: names[one.name] for one in aliases}
    for node in nodes:
        if isinstance(node, ast.Assign) and (value := _read_used_name(node.value)) in names:
            # `Extension = CppExtension`, then `Extension = CUDAExtension` if CUDA is found
            targets = (one.id for one in node.targets if isinstance(one, ast.Name))
            names |= {name: names[value] for name in targets if names.get(name) != _CUDA_CLASS}
    return names


def _read_used_name(node: ast.AST) -> str:
    """Return the last part of the name that an expression reads, "" for another node."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _read_module_name(call: ast.Call) -> str:
    """Return the literal name of the module that an extension class is called with, or ""."""
    values = [one.value for one in call.keywords if one.arg == "name"] or call.args[:1]
    value = values[0].value if values and isinstance(values[0], ast.Constant) else None
    return value if isinstance(value, str) else ""


def read_small_file(path: Path) -> str:
    """Return the text of a file in any encoding; "" if it is missing, unreadable or large."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return ""
        content = path.read_bytes()
    except OSError:
        return ""
    is_utf16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))  # PowerShell: pip freeze > FILE
    return content.decode("utf-16" if is_utf16 else "utf-8-sig", errors="replace")
