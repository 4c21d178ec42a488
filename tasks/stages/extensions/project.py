"""Read an extension's project without running it: its name, and what its setup.py reads."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePath

from tasks.stages.extensions.job import ExtensionJob

_VARIABLE_READ = re.compile(
    r"""(?:environ(?:\.get\(|\[)|getenv\()\s*["'](\w+)["'](?!\]\s*=[^=])"""
    r"""|["'](\w+)["']\s+(?:not\s+)?in\s+os\.environ"""
)
_GPU_CHECK = re.compile(r"^[^#]*\bcuda\.(?:is_available|device_count)\(")
_ARCH_SETTING = re.compile(r"^[^#]*(?:-gencode|compute_\{?\w|TORCH_CUDA_ARCH_LIST[\"']\]\s*=[^=])")


@dataclass(frozen=True)
class Project:
    """The folder with setup.py or pyproject.toml; `shown` is its setup.py in messages."""

    folder: Path
    shown: PurePath

    @property
    def name(self) -> str:
        """The name in its metadata, "" if only a build can tell."""
        return next(filter(None, self._list_names()), "")

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that setup.py reads, in order."""
        found = (one or other for one, other in _VARIABLE_READ.findall(self._read_text("setup.py")))
        return tuple(dict.fromkeys(found))

    @property
    def gpu_check_line(self) -> str:
        """The line of setup.py that checks for a GPU, as `FILE:LINE`; "" if there is none."""
        return self._find_line(_GPU_CHECK)

    @property
    def arch_setting_line(self) -> str:
        """The line of setup.py that sets archs, as `FILE:LINE`; "" if there is none."""
        return self._find_line(_ARCH_SETTING)

    def _find_line(self, pattern: re.Pattern[str]) -> str:
        lines = enumerate(self._read_text("setup.py").splitlines(), 1)
        return next((f"{self.shown}:{at}" for at, line in lines if pattern.search(line)), "")

    def _list_names(self) -> Iterator[str]:
        yield _parse_toml_name(self._read_text("pyproject.toml"))
        yield _parse_cfg_name(self._read_text("setup.cfg"))
        yield _parse_setup_name(self._read_text("setup.py"))
        yield HeaderParser().parsestr(self._read_text("PKG-INFO")).get("Name", "")

    def _read_text(self, name: str) -> str:
        file = self.folder / name
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def locate_project(job: ExtensionJob) -> Project:
    """Return the project in the fetched tree."""
    shown = PurePath(job.original) / job.subdirectory / "setup.py"
    return Project(Path(job.tree) / job.subdirectory, shown)


def _parse_toml_name(text: str) -> str:
    try:
        return str(tomllib.loads(text).get("project", {}).get("name", ""))
    except (tomllib.TOMLDecodeError, AttributeError):
        return ""


def _parse_cfg_name(text: str) -> str:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error:
        return ""
    return parser.get("metadata", "name", fallback="")


def _parse_setup_name(text: str) -> str:
    """Return the `name` argument of setup(): a string, or a variable that holds one."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ""
    texts = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"setup", "setuptools.setup"}:
            for value in (one.value for one in node.keywords if one.arg == "name"):
                found = value.value if isinstance(value, ast.Constant) else None
                found = texts.get(value.id) if isinstance(value, ast.Name) else found
                return found if isinstance(found, str) else ""
    return ""
