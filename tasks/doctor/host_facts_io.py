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
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from tasks.core.check_ids import CheckId
from tasks.core.errors import CommandFailedError, MissingToolError, redact_secrets
from tasks.core.model import Command, Interpreter
from tasks.doctor.folder_facts_io import (
    has_started_build,
    read_conflict_facts,
    read_folder_facts,
    read_submodule_facts,
)
from tasks.doctor.host_facts import (
    VARIABLES,
    BuildTorch,
    Connectivity,
    HostFacts,
    InstalledExtension,
    Memory,
    ProbeRequest,
    Proxy,
    RequiredUrl,
    ShadowingTorch,
    Tool,
    VisualStudio,
)
from tasks.knowledge.cpp_extension import CPP_EXTENSION_PATH, parse_cpp_extension
from tasks.settings.compile_workers import DISTRIBUTOR_PROGRAMS
from tasks.system import environments, git, interpreters, shell, source_trees
from tasks.system.environments import find_site_folder, list_site_folders
from tasks.system.hardware import (
    capacity,
    host_probe,
    msvc_toolsets,
    nvidia,
    operating_system,
    toolchain,
)
from tasks.system.network import package_indexes

DEADLINE = 1.5  # seconds in total for all hosts
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


def start_network_probes(
    request: ProbeRequest, checks: frozenset[CheckId]
) -> Callable[[], dict[str, Any]]:
    """Start the network probes; return a function that waits for the results.

    The results are the facts `proxies`, `reach` and `workers`, if `checks` need them.
    """
    facts: dict[str, Any] = {}
    if "proxies" in checks:
        facts["proxies"] = tuple(_read_proxies())
    waiting: dict[str, Callable[[], tuple[Connectivity, ...]]] = {}
    if checks & {"index", "git-hosts"}:
        has_started = has_started_build(request)
        urls = dict.fromkeys(map(_apply_user_index, request.urls))
        waiting["reach"] = _start_probes(
            [replace(url, optional=url.optional or has_started) for url in urls]
        )
    if "workers" in checks and request.workers.hosts:
        hosts = request.workers.hosts
        waiting["workers"] = _start_probes([RequiredUrl(host.name, host.url) for host in hosts])
    return lambda: {**facts, **{name: wait() for name, wait in waiting.items()}}


def _start_probes(urls: list[RequiredUrl]) -> Callable[[], tuple[Connectivity, ...]]:
    wait_for_answers = start_url_probes([url.url for url in urls], DEADLINE)

    def wait() -> tuple[Connectivity, ...]:
        answers = wait_for_answers()
        return tuple(
            Connectivity(
                url.subject,
                redact_secrets(url.url),
                answers.get(url.url, False),
                url.optional,
                redact_secrets(url.instead_of),
            )
            for url in urls
        )

    return wait


def start_url_probes(urls: Iterable[str], deadline: float) -> Callable[[], dict[str, bool]]:
    """Connect to all URLs; return a function that waits for the answers.

    The function waits until `deadline` seconds after the start. URLs without a result are omitted.
    """
    results: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
    end_time = time.monotonic() + deadline
    pending = set(urls)

    def probe(url: str) -> None:
        try:
            results.put((url, git.is_reachable(url)))
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
    """Return `required`, with the index of the user's uv or pip settings instead of a default."""
    if not required.usual:
        return required
    pip_index = "" if required.instead_of else package_indexes.find_pip_index()
    user_index = package_indexes.find_uv_index() or pip_index
    return replace(required, url=user_index, instead_of="") if user_index else required


def _read_proxies() -> Iterator[Proxy]:
    """Yield the proxies of the environment, without user and password."""
    for name in (name for lower in _PROXY_VARIABLES for name in (lower, lower.upper())):
        if text := os.environ.get(name, ""):
            host, port = None, None
            with contextlib.suppress(ValueError):
                parts = urlsplit(text if "://" in text else f"//{text}")
                port, host = parts.port, parts.hostname
            yield Proxy(name, f"{host or ''}{f':{port}' if host and port else ''}")


_BYTES_PER_MIB = 2**20


def read_machine_facts(request: ProbeRequest, checks: frozenset[CheckId]) -> dict[str, Any]:
    """Return the facts about the system, and `memory` and `encoding` if `checks` need them."""
    facts: dict[str, Any] = {
        "os_release": _read_os_release(request.host.system),
        "systems": operating_system.list_system_names(),
        "glibc": _read_glibc_version(request.host.system),
        "wsl": "microsoft" in platform.release().lower() and request.host.system == "linux",
        "environ": tuple((name, os.environ[name]) for name in VARIABLES if name in os.environ),
    }
    if checks & {"memory", "swap"}:
        facts["memory"] = _measure_memory()
    if "locale" in checks:
        facts["encoding"] = locale.getencoding()
    return facts


def _read_os_release(system: str) -> str:
    if system == "windows":
        return f"Windows {platform.release()} ({platform.version()})"
    if system == "macos":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"Linux {platform.release()}"


def _read_glibc_version(system: str) -> str:
    """Return the version of the running glibc, "" for musl and other systems."""
    if system == "linux" and sys.platform == "linux":
        with contextlib.suppress(ValueError, OSError):  # musl does not define the name
            return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    return ""


def _measure_memory() -> Memory:
    import psutil  # noqa: PLC0415 - not at load

    swap_mib = None
    with contextlib.suppress(RuntimeError):  # Windows' performance counters may be disabled
        swap_mib = int(psutil.swap_memory().total // _BYTES_PER_MIB)
    control_groups = capacity.find_control_groups()
    return Memory(
        total_mib=psutil.virtual_memory().total // _BYTES_PER_MIB,
        limit_mib=capacity.find_memory_limit(control_groups),
        available_mib=capacity.measure_memory(control_groups).available_mib,
        swap_mib=swap_mib,
        cores=capacity.count_usable_cores(),
    )


def read_python_facts(request: ProbeRequest, checks: frozenset[CheckId]) -> dict[str, Any]:
    """Return `python_bits`, `torch`, `without_cuda`, `shadows` and `installed`, if needed."""
    facts: dict[str, Any] = {}
    if "python" in checks:
        facts["python_bits"] = _read_python_bits(request.host.python.path)
    if "torch-checks" in checks and request.build:
        facts["torch"] = _find_build_torch(request)
        facts["without_cuda"] = frozenset(_list_extensions_without_cuda(request))
    if "torch-shadow" in checks:
        facts["shadows"] = tuple(_find_shadowing_torches(request))
    if "names" in checks and request.build:
        facts["installed"] = tuple(_find_installed_extensions(request))
    return facts


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


def _find_build_torch(request: ProbeRequest) -> BuildTorch:
    venv = list_site_folders(request.venv) if request.venv else ()
    torch = interpreters.find_torch([Path(request.torch).parent] if request.torch else [*venv])
    if torch is None:
        return BuildTorch()
    text = ""
    with contextlib.suppress(OSError):
        file = Path(torch.folder) / CPP_EXTENSION_PATH
        text = file.read_text(encoding="utf-8", errors="replace")
    return BuildTorch(torch.version, torch.cuda, parse_cpp_extension(text))


def _list_extensions_without_cuda(request: ProbeRequest) -> Iterator[str]:
    for name, folder in request.sources:
        with contextlib.suppress(OSError):  # the stage that copies the folder reports the error
            if not source_trees.has_cuda_sources(folder):
                yield name


def _find_shadowing_torches(request: ProbeRequest) -> Iterator[ShadowingTorch]:
    python_path = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    conda = os.environ.get("CONDA_PREFIX")
    folders: dict[Any, Iterable[Path]] = {
        "PYTHONPATH": map(Path, python_path),
        "conda": list_site_folders(Path(conda)) if conda else (),
        "user site": (_find_user_site(request.host.python),),
    }
    for how, folder in ((how, folder) for how, group in folders.items() for folder in group):
        if torch := interpreters.find_torch([folder]):
            yield ShadowingTorch(how, torch.folder, torch.version)
    for name in ("torch.py", "torch/__init__.py"):
        if (torch_file := Path(request.root) / name).is_file():
            yield ShadowingTorch("checkout", str(torch_file))


def _find_user_site(python: Interpreter) -> Path:
    """Return the folder that `pip install --user` uses (docs.python.org/3/library/site.html)."""
    major, minor = python.version.split(".")[:2]
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", "~")) / f"Python/Python{major}{minor}/site-packages"
    base = os.environ.get("PYTHONUSERBASE") or "~/.local"
    home = os.path.expanduser(base)  # noqa: PTH111 - works without a home directory
    return Path(home) / f"lib/python{major}.{minor}/site-packages"


def _find_installed_extensions(request: ProbeRequest) -> Iterator[InstalledExtension]:
    """Yield the extensions that are installed next to an existing torch or in the user site folder.

    Packages from a package index have no direct_url.json (PEP 610).
    """
    python = request.host.python
    folders = [Path(python.torch.folder).parent] if python.torch else []
    for folder in [*folders, _find_user_site(python)]:
        for name in request.distributions:
            for info in folder.glob(f"{name.replace('-', '_')}-*.dist-info"):
                version = info.name.removesuffix(".dist-info").rpartition("-")[2]
                indexed = not (info / "direct_url.json").is_file()
                yield InstalledExtension(name, version, str(folder), indexed)


_TOOLSET = "VC/Auxiliary/Build/Microsoft.VCToolsVersion.default.txt"


def read_tool_facts(request: ProbeRequest, checks: frozenset[CheckId]) -> dict[str, Any]:
    """Return the facts about compilers and build tools that `checks` need.

    Facts: `git`, `uv`, `cc`, `cxx`, `cmake`, `ninja`, `setuptools`, `hands_on`, `visual_studio`
    and `windows_sdk`.
    """
    readers: dict[CheckId, Callable[[], dict[str, Any]]] = {
        "uv": lambda: {"uv": Tool(environments.find_uv() or "")},
        "git": lambda: {"git": _find_tool("git")},
        "workers": lambda: _find_distribution_program(request.workers.kind),
        "cmake": lambda: {
            "cmake": _find_build_tool(request.venv, "cmake"),
            "setuptools": _find_setuptools(request.venv),
        },
        "ninja": lambda: {"ninja": _find_build_tool(request.venv, "ninja")},
    }
    if request.host.system == "windows":
        readers["visual-studio"] = lambda: {"visual_studio": find_visual_studios()}
        readers["windows-sdk"] = lambda: {"windows_sdk": list_windows_sdks(_find_windows_kits())}
    facts: dict[str, Any] = {}
    for check, read_facts in readers.items():
        if check in checks:
            facts |= read_facts()
    if checks & {"compiler", "known-bad", "torch-checks"}:
        facts["cc"], facts["cxx"] = _find_compilers(request)
    return facts


def _find_distribution_program(kind: Any) -> dict[str, Tool]:
    program = DISTRIBUTOR_PROGRAMS.get(kind)
    return {"hands_on": Tool(shutil.which(program) or "")} if program else {}


def _find_tool(name: str) -> Tool:
    program = toolchain.find_program(name)
    return Tool(program.path, program.version) if program else Tool()


def _find_compilers(request: ProbeRequest) -> tuple[Tool, Tool]:
    try:
        compilers = toolchain.choose_compilers((request.cc, request.cxx), request.limits)
    except MissingToolError as error:
        missing = Tool(why=error.message, todo=error.hint)
        return missing, missing
    cc, cxx = compilers.cc, compilers.cxx
    return Tool(cc.path, cc.version), Tool(cxx.path, cxx.version, why=compilers.why)


def _find_build_tool(venv: PurePath | None, name: str) -> Tool:
    """Return the tool in the build environment, else the tool on PATH."""
    if venv:
        program = environments.build_program_path(environments.find_scripts_folder(venv), name)
        if program.is_file():
            return _find_tool(str(program))
    return _find_tool(name)


def _find_setuptools(venv: PurePath | None) -> Tool:
    for dist_info in find_site_folder(venv).glob("setuptools-*.dist-info") if venv else ():
        return Tool(str(dist_info), dist_info.name.split("-")[1].removesuffix(".dist"))
    return Tool()


def find_visual_studios() -> tuple[VisualStudio, ...] | None:
    """Return all Visual Studio installations, None if vswhere is not available."""
    rows = msvc_toolsets.run_vswhere("-all", "-prerelease")
    return None if rows is None else tuple(map(_parse_installation, rows))


def _parse_installation(row: Any) -> VisualStudio:
    name, version, folder = msvc_toolsets.parse_vswhere_row(row)
    toolset = ""
    with contextlib.suppress(OSError):
        toolset = (Path(folder) / _TOOLSET).read_text(encoding="utf-8-sig").strip()
    return VisualStudio(name, version, folder, tools=toolset)


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


def read_gpu_facts(request: ProbeRequest, checks: frozenset[CheckId]) -> dict[str, Any]:
    """Return the facts `nvidia` (the driver and its GPUs) and `nvcc`, if `checks` need them."""
    facts: dict[str, Any] = {}
    if checks & {"cards", "targets", "driver"}:
        facts["nvidia"] = nvidia.query_driver()
    if checks & {"toolkit", "known-bad", "torch-checks"} and (home := request.toolkit_home):
        version = host_probe.read_nvcc_version(Path(home))
        facts["nvcc"] = Tool(toolchain.build_nvcc_path(home), version) if version else Tool()
    return facts


_READERS = (
    read_machine_facts,
    read_tool_facts,
    read_gpu_facts,
    read_python_facts,
    read_submodule_facts,
    read_conflict_facts,
    read_folder_facts,
)


def read_host_facts(request: ProbeRequest, checks: frozenset[CheckId]) -> HostFacts:
    """Return the facts that `checks` need. Network probes run while the other facts are read."""
    wait_for_answers = start_network_probes(request, checks)
    facts = HostFacts(request.host, request.root)
    for read_facts in _READERS:
        facts = replace(facts, **read_facts(request, checks))
    return replace(facts, **wait_for_answers())
