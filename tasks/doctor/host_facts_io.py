"""Read facts about the host: system, memory, network, Python, tools and GPUs."""

import contextlib
import locale
import os
import platform
import queue
import shutil
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from tasks.core.check_ids import CheckId
from tasks.core.deps_model import CompilerLimits
from tasks.core.errors import CommandFailedError, MissingToolError, redact_secrets
from tasks.core.model import Command, Interpreter
from tasks.doctor import folder_facts_io, host_facts
from tasks.doctor.host_facts import VARIABLES, InstalledExtension, ProbeRequest, RequiredUrl, Tool
from tasks.knowledge.cpp_extension import CPP_EXTENSION_PATH, parse_cpp_extension
from tasks.settings.compile_workers import DISTRIBUTOR_PROGRAMS
from tasks.system import environments, interpreters, shell, source_trees
from tasks.system.environments import find_site_folder, list_site_folders
from tasks.system.git import clones
from tasks.system.hardware import capacity, msvc_toolsets, nvidia, operating_system, toolchain
from tasks.system.hardware.host_probe import read_nvcc_version
from tasks.system.network import package_indexes

DEADLINE = 1.5  # seconds in total for all hosts
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


def _start_network_probes(
    request: ProbeRequest, checks: frozenset[CheckId]
) -> Callable[[], dict[str, Any]]:
    """Start the network probes for `checks`. Return a function that waits for the facts."""
    urls: dict[str, list[RequiredUrl]] = {}
    if checks & {"index", "git-hosts"}:
        started = folder_facts_io.has_started_build(request)
        required = dict.fromkeys(map(_apply_user_index, request.urls))
        urls["reach"] = [replace(url, optional=url.optional or started) for url in required]
    if "workers" in checks and request.workers.hosts:
        urls["workers"] = [RequiredUrl(host.name, host.url) for host in request.workers.hosts]
    if not urls:
        return dict
    wait = start_url_probes([url.url for group in urls.values() for url in group], DEADLINE)

    def add_answer(url: RequiredUrl, answers: dict[str, bool]) -> RequiredUrl:
        mirrored, answer = redact_secrets(url.instead_of), answers.get(url.url, False)
        return replace(url, url=redact_secrets(url.url), instead_of=mirrored, answers=answer)

    def wait_for_facts() -> dict[str, Any]:
        answers = wait()
        return {fact: tuple(add_answer(url, answers) for url in urls[fact]) for fact in urls}

    return wait_for_facts


def start_url_probes(urls: Iterable[str], deadline: float) -> Callable[[], dict[str, bool]]:
    """Connect to all URLs. Return a function that waits for the answers.

    The function waits until `deadline` seconds after the start, and omits URLs without a result.
    """
    results: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
    end_time = time.monotonic() + deadline
    pending = set(urls)

    def probe(url: str) -> None:
        try:
            results.put((url, clones.is_reachable(url)))
        except (OSError, ValueError):  # an invalid name or port
            results.put((url, False))

    for url in pending:
        threading.Thread(target=probe, args=(url,), daemon=True).start()

    def wait_for_answers() -> dict[str, bool]:
        answers: dict[str, bool] = {}
        with contextlib.suppress(queue.Empty):
            while len(answers) < len(pending):
                url, answer = results.get(timeout=max(0.0, end_time - time.monotonic()))
                answers[url] = answer
        return answers

    return wait_for_answers


def _apply_user_index(required: RequiredUrl) -> RequiredUrl:
    """Replace a default index with the index in the user's uv or pip settings, if any."""
    if not required.usual:
        return required
    pip_index = "" if required.instead_of else package_indexes.find_pip_index()
    user_index = package_indexes.find_uv_index() or pip_index
    return replace(required, url=user_index, instead_of="") if user_index else required


def _read_proxies() -> dict[str, str]:
    """Return the proxies of the environment by variable, without user and password."""
    proxies: dict[str, str] = {}
    for name in (name for lower in _PROXY_VARIABLES for name in (lower, lower.upper())):
        if text := os.environ.get(name, ""):
            host, port = None, None
            with contextlib.suppress(ValueError):
                parts = urlsplit(text if "://" in text else f"//{text}")
                port, host = parts.port, parts.hostname
            proxies[name] = f"{host or ''}{f':{port}' if host and port else ''}"
    return proxies


_BYTES_PER_MIB = 2**20


def _read_os_release(request: ProbeRequest) -> str:
    if request.host.system == "windows":
        return f"Windows {platform.release()} ({platform.version()})"
    if request.host.system == "macos":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"Linux {platform.release()}"


def _is_wsl(request: ProbeRequest) -> bool:
    return "microsoft" in platform.release().lower() and request.host.system == "linux"


def _read_glibc_version(request: ProbeRequest) -> str:
    """Return the version of the running glibc; an empty string for musl and other systems."""
    if request.host.system == "linux" and sys.platform == "linux":
        with contextlib.suppress(ValueError, OSError):  # musl does not define the name
            return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    return ""


def _measure_memory(_: ProbeRequest) -> host_facts.Memory:
    import psutil  # noqa: PLC0415 - not at load

    swap_mib = None
    with contextlib.suppress(RuntimeError):  # Windows' performance counters may be disabled
        swap_mib = int(psutil.swap_memory().total // _BYTES_PER_MIB)
    control_groups = capacity.find_control_groups()
    return host_facts.Memory(
        total_mib=psutil.virtual_memory().total // _BYTES_PER_MIB,
        limit_mib=capacity.find_memory_limit(control_groups),
        available_mib=capacity.measure_memory(control_groups).available_mib,
        swap_mib=swap_mib,
        cores=capacity.count_usable_cores(),
    )


def _read_python_bits(python: str) -> int | None:
    """Return 32 or 64, the pointer size of the interpreter, or None if it does not run."""
    if python in (sys.executable, getattr(sys, "_base_executable", "")):
        return struct.calcsize("P") * 8
    query = "import struct; print(struct.calcsize('P') * 8)"
    command = Command((python, "-c", query), shell.build_host_env(), "ask Python", timeout=10)
    try:
        return int(shell.capture_output(command))
    except (CommandFailedError, MissingToolError, ValueError):
        return None


def _find_build_torch(request: ProbeRequest) -> host_facts.BuildTorch | None:
    if not request.build:
        return None
    venv = list_site_folders(request.venv) if request.venv else ()
    torch = interpreters.find_torch([Path(request.torch).parent] if request.torch else [*venv])
    if torch is None:
        return host_facts.BuildTorch()
    text = ""
    with contextlib.suppress(OSError):
        file = Path(torch.folder) / CPP_EXTENSION_PATH
        text = file.read_text(encoding="utf-8", errors="replace")
    return host_facts.BuildTorch(torch.version, torch.cuda, parse_cpp_extension(text))


def _list_extensions_without_cuda(request: ProbeRequest) -> frozenset[str]:
    names: set[str] = set()
    for name, folder in request.sources:
        with contextlib.suppress(OSError):  # the stage that copies the folder reports the error
            if not source_trees.has_cuda_sources(folder):
                names.add(name)
    return frozenset(names)


def _find_shadowing_torches(request: ProbeRequest) -> Iterator[host_facts.ShadowingTorch]:
    python_path = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    conda = os.environ.get("CONDA_PREFIX")
    folders: dict[Any, Iterable[Path]] = {
        "PYTHONPATH": map(Path, python_path),
        "conda": list_site_folders(Path(conda)) if conda else (),
        "user site": (_find_user_site(request.host.python),),
    }
    for how, folder in ((how, folder) for how, group in folders.items() for folder in group):
        if torch := interpreters.find_torch([folder]):
            yield host_facts.ShadowingTorch(how, torch.folder, torch.version)
    for name in ("torch.py", "torch/__init__.py"):
        if (torch_file := Path(request.project.root) / name).is_file():
            yield host_facts.ShadowingTorch("checkout", str(torch_file))


def _find_user_site(python: Interpreter) -> Path:
    """Return the folder that `pip install --user` uses (docs.python.org/3/library/site.html)."""
    major, minor = python.version.split(".")[:2]
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", "~")) / f"Python/Python{major}{minor}/site-packages"
    base = os.environ.get("PYTHONUSERBASE") or "~/.local"
    home = os.path.expanduser(base)  # noqa: PTH111 - works without a home directory
    return Path(home) / f"lib/python{major}.{minor}/site-packages"


def _find_installed_extensions(request: ProbeRequest) -> tuple[InstalledExtension, ...] | None:
    """Return the extensions that are already installed, or None without a profile.

    Packages from a package index have no direct_url.json (PEP 610).
    """
    python, found = request.host.python, []
    folders = [Path(python.torch.folder).parent] if python.torch else []
    names = dict(request.sources)
    for folder, name in product((*folders, _find_user_site(python)), names):
        for info in folder.glob(f"{name.replace('-', '_')}-*.dist-info"):
            version = info.name.removesuffix(".dist-info").rpartition("-")[2]
            indexed = not (info / "direct_url.json").is_file()
            found.append(InstalledExtension(name, version, str(folder), indexed))
    return tuple(found) if request.build else None


_TOOLSET = "VC/Auxiliary/Build/Microsoft.VCToolsVersion.default.txt"


def _find_tool(name: str) -> Tool:
    program = toolchain.find_program(name)
    return Tool(program.path, program.version) if program else Tool()


def _find_compiler(request: ProbeRequest) -> Tool:
    try:
        requested = (deps.cc, deps.cxx) if (deps := request.deps) else (None, None)
        limits = deps.limits if deps else CompilerLimits()
        compilers = toolchain.choose_compilers(requested, limits)
    except MissingToolError as error:
        return Tool(why=error.message, todo=error.hint)
    return Tool(compilers.cxx.path, compilers.cxx.version, why=compilers.why)


def _find_build_tool(venv: PurePath | None, name: str) -> Tool:
    """Return the tool in the build environment or, if missing, the tool on PATH."""
    if venv:
        program = environments.build_program_path(environments.find_scripts_folder(venv), name)
        if program.is_file():
            return _find_tool(str(program))
    return _find_tool(name)


def _find_setuptools(venv: PurePath | None) -> Tool:
    for dist_info in find_site_folder(venv).glob("setuptools-*.dist-info") if venv else ():
        return Tool(str(dist_info), dist_info.name.split("-")[1].removesuffix(".dist"))
    return Tool()


def find_visual_studios() -> tuple[host_facts.VisualStudio, ...] | None:
    """Return all Visual Studio installations, None if vswhere is not available."""
    if (rows := msvc_toolsets.run_vswhere("-all", "-prerelease")) is None:
        return None
    studios = []
    for name, version, folder in map(msvc_toolsets.parse_vswhere_row, rows):
        toolset = ""
        with contextlib.suppress(OSError):
            toolset = (Path(folder) / _TOOLSET).read_text(encoding="utf-8-sig").strip()
        studios.append(host_facts.VisualStudio(name, version, folder, tools=toolset))
    return tuple(studios)


def list_windows_sdks(kits: Path | None) -> tuple[str, ...]:
    """Return the versions of the Windows SDK that include windows.h, in ascending order."""
    headers = kits.glob("Include/10.*/um/Windows.h") if kits else ()
    return tuple(sorted(header.parent.parent.name for header in headers))


def _find_windows_kits() -> Path | None:
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415 - exists only on Windows

        key = r"SOFTWARE\Microsoft\Windows Kits\Installed Roots"
        view = winreg.KEY_READ | winreg.KEY_WOW64_32KEY
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key, 0, view) as registry_key:
                return Path(winreg.QueryValueEx(registry_key, "KitsRoot10")[0])
        except OSError:
            return None
    return None


def _find_nvcc(request: ProbeRequest) -> Tool | None:
    if not (home := request.toolkit_home):
        return None
    version = read_nvcc_version(Path(home))
    return Tool(toolchain.build_nvcc_path(home), version) if version else Tool()


def _find_distribution_program(request: ProbeRequest) -> Tool | None:
    program = DISTRIBUTOR_PROGRAMS.get(request.workers.kind)
    return Tool(shutil.which(program) or "") if program else None


# For each fact: the checks that need it (without any, it is always read), and the reader function
_Readers = dict[str, tuple[set[CheckId], Callable[[ProbeRequest], Any]]]
_READERS: _Readers = {
    "os_release": (set(), _read_os_release),
    "systems": (set(), lambda _: operating_system.list_system_names()),
    "glibc": (set(), _read_glibc_version),
    "wsl": (set(), _is_wsl),
    "environ": (set(), lambda _: {key: os.environ[key] for key in VARIABLES if key in os.environ}),
    "memory": ({"memory", "swap"}, _measure_memory),
    "today": ({"knowledge"}, lambda _: datetime.now(UTC).date().isoformat()),
    "encoding": ({"locale"}, lambda _: locale.getencoding()),
    "proxies": ({"proxies"}, lambda _: _read_proxies()),
    "uv": ({"uv"}, lambda _: Tool(environments.find_uv() or "")),
    "git": ({"git"}, lambda _: _find_tool("git")),
    "hands_on": ({"workers"}, _find_distribution_program),
    "cmake": ({"cmake"}, lambda request: _find_build_tool(request.venv, "cmake")),
    "setuptools": ({"cmake"}, lambda request: _find_setuptools(request.venv)),
    "ninja": ({"ninja"}, lambda request: _find_build_tool(request.venv, "ninja")),
    "cxx": ({"compiler", "known-bad", "torch-checks"}, _find_compiler),
    "nvcc": ({"toolkit", "known-bad", "torch-checks"}, _find_nvcc),
    "nvidia": ({"cards", "targets", "driver"}, lambda _: nvidia.query_driver()),
    "python_bits": ({"python"}, lambda request: _read_python_bits(request.host.python.path)),
    "torch": ({"torch-checks"}, _find_build_torch),
    "without_cuda": ({"torch-checks"}, _list_extensions_without_cuda),
    "shadows": ({"torch-shadow"}, lambda request: tuple(_find_shadowing_torches(request))),
    "installed": ({"names"}, _find_installed_extensions),
    "unfetched": ({"submodules"}, folder_facts_io.find_missing_submodules),
    "unmerged": ({"conflicts"}, folder_facts_io.find_merge_conflicts),
    "disks": ({"disk", "filesystem"}, lambda request: (*folder_facts_io.list_disks(request),)),
    "begun": ({"disk", "filesystem"}, folder_facts_io.has_started_build),
    "leftovers": ({"leftovers"}, lambda request: (*folder_facts_io.find_leftovers(request),)),
    "exposed": ({"trust"}, folder_facts_io.find_unsafe_paths),
}
_WINDOWS_READERS: _Readers = {
    "visual_studio": ({"visual-studio"}, lambda _: find_visual_studios()),
    "windows_sdk": ({"windows-sdk"}, lambda _: list_windows_sdks(_find_windows_kits())),
    "long_paths": ({"long-paths"}, lambda _: folder_facts_io.read_long_paths_setting()),
}


def read_host_facts(request: ProbeRequest, checks: frozenset[CheckId]) -> host_facts.HostFacts:
    """Return the facts that `checks` need. Network probes run while the other facts are read."""
    wait_for_facts = _start_network_probes(request, checks)
    readers = _READERS | (_WINDOWS_READERS if request.host.system == "windows" else {})
    facts = {
        fact: read_fact(request)
        for fact, (users, read_fact) in readers.items()
        if not users or users & checks
    }
    return host_facts.HostFacts(request.host, request.project.root, **facts, **wait_for_facts())
