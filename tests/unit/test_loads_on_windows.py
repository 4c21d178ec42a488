"""Modules that Python lacks on Windows are needed neither to load nor to build."""

from __future__ import annotations

import subprocess
import sys

from tests.support.checkout import ROOT

# Modules with "Availability: Unix" in the library reference, and those that a module of the
# standard library imports optionally
POSIX = (
    *("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"),
    *("curses", "crypt", "nis", "ossaudiodev", "spwd", "_posixsubprocess", "_posixshmem"),
)
# Simulate Windows: `sys.platform` and `os.name` are read at load, and these modules are missing.
# Imports in platform-specific branches come from the real machine, so that only
# our modules are loaded under that name.
LOAD = """
import ctypes, importlib, multiprocessing.process, os, pathlib, pkgutil, signal, subprocess, sys
import types, zoneinfo
import doit.doit_cmd, filelock, jinja2, packaging.version, psutil, pydantic, pynvml, rich.console
import asyncio, logging.handlers, multiprocessing.shared_memory, rich.live, rich.progress, uv, yaml
import elftools.elf.elffile, packaging.requirements, packaging.utils, packaging.tags, jinja2.loaders
import click.shell_completion, platformdirs
import concurrent.futures, http.client, shutil, socket, tarfile, tempfile, zipfile, urllib.request

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in POSIX:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

# What is of one system alone; on Windows itself its own is loaded as it is
if sys.platform != "win32":
    of_windows = ("system.windows_kernel", "jobs.windows_tokens_io")
    for name in of_windows:
        module = sys.modules[f"tasks.{name}"] = types.ModuleType(name)
        module.__getattr__ = lambda name: getattr(object, name) if name[0] == "_" else object
OTHER = {"tasks.system.posix_group", "tasks.jobs.posix_tokens_io"}

POSIX = {posix!r}
for name in POSIX:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
sys.platform = "win32"
import tasks
names = [found.name for found in pkgutil.walk_packages(tasks.__path__, "tasks.")]
names = [name for name in names if ".probes." not in name and name not in OTHER]
for name in names:
    importlib.import_module(name)
assert not set(POSIX) & set(sys.modules), set(POSIX) & set(sys.modules)
print(len(names))
"""


def test_every_module_loads_without_modules_missing_on_windows() -> None:
    code = LOAD.replace("{posix!r}", repr(POSIX))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 150
