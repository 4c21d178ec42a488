"""A package index of the future: releases that the knowledge does not have, as small wheels.

The server adds them to what the real index has. Of torch it has nothing else.
"""

from __future__ import annotations

import html
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from tasks.system.network.package_index import open_package_index
from tasks.system.network.package_indexes import find_default_index
from tests.support import smallwheels
from tests.support.fatbins import fatbin
from tests.support.sharedlibrary import compile_library, make_library
from tests.support.webserver import Quiet, running

PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
PLATFORM = f"manylinux_2_28_{platform.machine()}"
CPP_EXTENSION = """
CUDA_GCC_VERSIONS = {}
def _get_cuda_arch_flags(cflags=None):
    supported_arches = %r
"""
CODE_TABLE = "PYTORCH_RELEASES_CODE_CC = %r\n"
INIT = """
from torch import cuda, version
__version__ = version.__version__
"""
CUDA_MODULE = """
def is_available(): return False
def device_count(): return 0
def get_arch_list(): return ['sm_' + str(code) for code in CODES]
CODES = %r
"""
KERNELS = """
__asm__(".section .nv_fatbin,\\"a\\"\\n.incbin \\"%s\\"\\n.previous");
int kernels(void) { return 1; }
"""
HOST_CONFIG = """
#if defined(__GNUC__)
#if __GNUC__ > %d
#error -- unsupported GNU version! gcc versions later than %d are not supported!
#endif
#endif
#if __clang_major__ >= %d
#error -- unsupported clang version! clang version must be less than %d!
#endif
"""


def torch_wheel(
    folder: Path,
    version: str,
    cuda: str,
    codes: Sequence[int],
    *,
    table: bool = True,
    extension_archs: Sequence[str] = ("7.5", "8.0", "9.0", "12.0", "13.0"),
    requires: Sequence[str] = (),
) -> Path:
    """Write a torch wheel whose libtorch_cuda has cubins for `codes` (90, 120)."""
    images = [f"sm_{code}" for code in codes]
    image = folder / "kernels.fatbin"
    folder.mkdir(parents=True, exist_ok=True)
    image.write_bytes(fatbin(*images))
    source = KERNELS % image
    digits = cuda.replace(".", "")
    content: dict[str, bytes | str] = {
        "torch/__init__.py": INIT,
        "torch/version.py": f"__version__ = '{version}+cu{digits}'\ncuda = '{cuda}'\n",
        "torch/utils/__init__.py": "",
        "torch/utils/cpp_extension.py": CPP_EXTENSION % list(extension_archs),
        "torch/cuda/__init__.py": CUDA_MODULE % list(codes)
        + (CODE_TABLE % {cuda: {platform.machine(): set(codes)}} if table else ""),
        "torch/lib/libtorch_cuda.so": compile_library(folder / "k.so", source).read_bytes(),
        "torch/lib/libtorch.so": make_library(folder / "libtorch.so").read_bytes(),
    }
    tag = f"{PYTHON}-{PYTHON}-{PLATFORM}"
    return smallwheels.wheel(folder, "torch", version, content, requires, tag=tag)


def toolkit_wheels(folder: Path, cuda: str, sm: Sequence[str], *, gcc: int, clang: int) -> None:
    """Write cuda-toolkit and the packages of its compiler, whose programs are scripts."""
    version = f"{cuda}.7"
    pins = [f"nvidia-cuda-nvcc=={version}; extra == 'nvcc'"]
    pins += [f"nvidia-cuda-crt=={version}; extra == 'crt'"]
    smallwheels.wheel(folder, "cuda_toolkit", f"{cuda}.0", {}, pins)
    scripts = _compiler_scripts(sm, version)
    programs = {f"nvidia/cu13/bin/{name}": text for name, text in scripts.items()}
    tag = f"py3-none-{PLATFORM}"
    smallwheels.wheel(folder, "nvidia_cuda_nvcc", version, programs, tag=tag)
    header = HOST_CONFIG % (gcc, gcc, clang + 1, clang + 1)
    headers = {"nvidia/cu13/include/crt/host_config.h": header}
    smallwheels.wheel(folder, "nvidia_cuda_crt", version, headers, tag=tag)


def installed_toolkit(home: Path, cuda: str, sm: Sequence[str], *, gcc: int, clang: int) -> Path:
    """Write a toolkit as an installer does, with programs that are scripts."""
    for name, text in _compiler_scripts(sm, f"{cuda}.7").items():
        path = home / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    headers = home / "include" / "crt"
    headers.mkdir(parents=True)
    (home / "include" / "cuda.h").write_text("", encoding="utf-8")
    header = HOST_CONFIG % (gcc, gcc, clang + 1, clang + 1)
    (headers / "host_config.h").write_text(header, encoding="utf-8")
    return home


def _compiler_scripts(sm: Sequence[str], version: str) -> dict[str, str]:
    """Return nvcc and ptxas, which answer the questions that torchyard asks."""
    codes = [f"sm_{arch.replace('.', '')}" for arch in sm]
    quoted, lines = ",".join(f"'{code}'" for code in codes), "\n".join(codes)
    nvcc = f"case $1 in --version) echo V{version};; --list-gpu-code) echo '{lines}';; esac"
    ptxas = f'case $1 in --list-version) echo 9.9;; --help) echo "{quoted}";; esac'
    return {"nvcc": f"#!/bin/sh\n{nvcc}\n", "ptxas": f"#!/bin/sh\n{ptxas}\n"}


def _list_own_files(folder: Path, project: str) -> list[Path]:
    names = folder.glob("*.whl")
    return [one for one in names if one.name.split("-")[0].replace("_", "-").lower() == project]


class _Handler(Quiet):
    """Serves the folder's wheels, and pages with links to them and to those of the real index."""

    upstream = find_default_index()

    def do_GET(self) -> None:  # noqa: N802
        parts = unquote(self.path).strip("/").split("/")
        if parts[0] != "simple":
            super().do_GET()
            return
        project = parts[1]
        names = [one.name for one in _list_own_files(Path(self.directory), project)]
        files = () if project == "torch" else open_package_index(self.upstream).list_files(project)
        links = [f'<a href="/{html.escape(name)}">{name}</a>' for name in names]
        links += [
            f'<a href="{one.url}#sha256={one.sha256}" '
            f'data-requires-python="{html.escape(one.requires_python)}">{one.name}</a>'
            for one in files
        ]
        body = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@dataclass
class FutureIndex:
    """The variables `env` make the index the default one. `asked` are the projects asked for."""

    env: Mapping[str, str]
    asked: list[str]


@contextmanager
def serving(folder: Path) -> Iterator[FutureIndex]:
    """Serve the wheels in the folder while the block lasts."""
    asked: list[str] = []

    class Handler(_Handler):
        def do_GET(self) -> None:  # noqa: N802
            parts = self.path.strip("/").split("/")
            asked.extend(parts[1:2] if parts[0] == "simple" else [])
            super().do_GET()

    handler = partial(Handler, directory=str(folder))
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        url = f"http://127.0.0.1:{server.server_port}/simple"
        env = {"UV_DEFAULT_INDEX": url, "PIP_INDEX_URL": url, "NO_PROXY": "127.0.0.1"}
        yield FutureIndex(env, asked)
