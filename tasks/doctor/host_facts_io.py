"""Read facts about the host: system, memory, network, Python, tools and GPUs."""

from __future__ import annotations

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
from tasks.settings.compile_workers import DISTRIBUTOR_PROGRAMS, Worker
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

DEADLINE = 1.5  # seconds for all hosts together
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


def start_network_probes(
    asked: ProbeRequest, wanted: frozenset[CheckId]
) -> Callable[[], dict[str, Any]]:
    """Start the network probes; return a function that waits for their results.

    The results are `proxies`, `reach` and `workers`.
    """
    facts: dict[str, Any] = {}
    if "proxies" in wanted:
        facts["proxies"] = tuple(_read_proxies())
    waiting: dict[str, Callable[[], tuple[Connectivity, ...]]] = {}
    if wanted & {"index", "git-hosts"}:
        waiting["reach"] = _start_required_url_probes(asked)
    if "workers" in wanted and asked.workers.hosts:
        waiting["workers"] = _start_worker_probes(asked.workers.hosts)
    return lambda: {**facts, **{name: wait() for name, wait in waiting.items()}}


def _start_worker_probes(hosts: Iterable[Worker]) -> Callable[[], tuple[Connectivity, ...]]:
    urls = {worker: worker.url for worker in hosts}
    answers = start_url_probes(urls.values(), DEADLINE)

    def wait_for_workers() -> tuple[Connectivity, ...]:
        by_url = answers()
        return tuple(
            Connectivity(worker.name, url, by_url.get(url, False)) for worker, url in urls.items()
        )

    return wait_for_workers


def _start_required_url_probes(asked: ProbeRequest) -> Callable[[], tuple[Connectivity, ...]]:
    required_urls = tuple(dict.fromkeys(map(_apply_user_index, asked.urls)))
    answers = start_url_probes([url.url for url in required_urls], DEADLINE)
    has_started = has_started_build(asked)

    def wait_for_urls() -> tuple[Connectivity, ...]:
        by_url = answers()
        return tuple(
            Connectivity(
                url.subject,
                redact_secrets(url.url),
                by_url.get(url.url, False),
                url.optional or has_started,
                redact_secrets(url.instead_of),
            )
            for url in required_urls
        )

    return wait_for_urls


def start_url_probes(urls: Iterable[str], deadline: float) -> Callable[[], dict[str, bool]]:
    """Connect to all URLs; return a function that waits for the results.

    It waits until `deadline` seconds after the start.
    """
    results: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
    end_time = time.monotonic() + deadline
    pending = set(urls)
    for url in pending:
        threading.Thread(target=_probe_url, args=(url, results), daemon=True).start()

    def wait_for_answers() -> dict[str, bool]:
        answers: dict[str, bool] = {}
        while len(answers) < len(pending):
            try:
                url, answer = results.get(timeout=max(0.0, end_time - time.monotonic()))
            except queue.Empty:
                break
            answers[url] = answer
        return answers

    return wait_for_answers


def _probe_url(url: str, told: queue.SimpleQueue[tuple[str, bool]]) -> None:
    try:
        told.put((url, git.is_reachable(url)))
    except (OSError, ValueError):  # an invalid name or port
        told.put((url, False))


def _apply_user_index(wanted: RequiredUrl) -> RequiredUrl:
    """Return the index of the user's uv or pip settings, if set, instead of the default."""
    if not wanted.usual:
        return wanted
    user_index = package_indexes.find_uv_index() or (
        "" if wanted.instead_of else package_indexes.find_pip_index()
    )
    return replace(wanted, url=user_index, instead_of="") if user_index else wanted


def _read_proxies() -> Iterator[Proxy]:
    names = [name for lower_name in _PROXY_VARIABLES for name in (lower_name, lower_name.upper())]
    for name in names:
        if text := os.environ.get(name, ""):
            yield Proxy(name, _parse_proxy_host(text))


def _parse_proxy_host(text: str) -> str:
    """Return host and port without user and password, "" without a host."""
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.hostname}{port}" if parts.hostname else ""


_BYTES_PER_MIB = 2**20


def read_machine_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """Read `os_release`, `systems`, `glibc`, `wsl`, `memory`, `encoding` and `environ`."""
    facts: dict[str, Any] = {
        "os_release": _read_os_release(asked.host.system),
        "systems": operating_system.list_system_names(),
        "glibc": _read_glibc_version(asked.host.system),
        "wsl": "microsoft" in platform.release().lower() and asked.host.system == "linux",
        "environ": tuple((name, os.environ[name]) for name in VARIABLES if name in os.environ),
    }
    if wanted & {"memory", "swap"}:
        facts["memory"] = _measure_memory()
    if "locale" in wanted:
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
    if system != "linux" or sys.platform != "linux":
        return ""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    except (ValueError, OSError):  # not defined by musl
        return ""


def _measure_memory() -> Memory:
    import psutil  # noqa: PLC0415 - not at load

    control_groups = capacity.find_control_groups()
    return Memory(
        total_mib=psutil.virtual_memory().total // _BYTES_PER_MIB,
        limit_mib=capacity.find_memory_limit(control_groups),
        available_mib=capacity.measure_memory(control_groups).available_mib,
        swap_mib=_read_swap_mib(),
        cores=capacity.count_usable_cores(),
    )


def _read_swap_mib() -> int | None:
    """Return the size of the swap, None if unknown.

    On Windows psutil reads performance counters, which may be disabled.
    """
    import psutil  # noqa: PLC0415 - not at load

    try:
        return int(psutil.swap_memory().total // _BYTES_PER_MIB)
    except RuntimeError:
        return None


def read_python_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """Read `python_bits`, `torch`, `without_cuda`, `shadows` and `installed`."""
    facts: dict[str, Any] = {}
    if "python" in wanted:
        facts["python_bits"] = _read_python_bits(asked.host.python.path)
    if "torch-checks" in wanted and asked.build:
        facts["torch"] = _find_build_torch(asked)
        facts["without_cuda"] = frozenset(_list_extensions_without_cuda(asked))
    if "torch-shadow" in wanted:
        facts["shadows"] = tuple(_find_shadowing_torches(asked))
    if "names" in wanted and asked.build:
        facts["installed"] = tuple(_find_installed_extensions(asked))
    return facts


def _read_python_bits(python: str) -> int | None:
    """Return 32 or 64, None if the interpreter does not run."""
    if python in (sys.executable, getattr(sys, "_base_executable", "")):
        return struct.calcsize("P") * 8
    query = "import struct; print(struct.calcsize('P') * 8)"
    command = Command((python, "-c", query), shell.build_host_env(), "ask Python", timeout=10)
    try:
        return int(shell.capture_output(command))
    except (CommandFailedError, MissingToolError, ValueError):
        return None


def _find_build_torch(asked: ProbeRequest) -> BuildTorch:
    venv = list_site_folders(asked.venv) if asked.venv else ()
    places = [Path(asked.torch).parent] if asked.torch else [*venv]
    torch = interpreters.find_torch(places)
    if torch is None:
        return BuildTorch()
    try:
        text = (Path(torch.folder) / CPP_EXTENSION_PATH).read_text(
            encoding="utf-8", errors="replace"
        )
    except OSError:
        text = ""
    return BuildTorch(torch.version, torch.cuda, parse_cpp_extension(text))


def _list_extensions_without_cuda(asked: ProbeRequest) -> Iterator[str]:
    for name, folder in asked.sources:
        with contextlib.suppress(OSError):  # the stage that copies it reports the error
            if not source_trees.has_cuda_sources(folder):
                yield name


def _find_shadowing_torches(asked: ProbeRequest) -> Iterator[ShadowingTorch]:
    for entry in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        yield from _find_torch_in_folder("PYTHONPATH", Path(entry))
    if conda := os.environ.get("CONDA_PREFIX"):
        for folder in list_site_folders(Path(conda)):
            yield from _find_torch_in_folder("conda", folder)
    yield from _find_torch_in_folder("user site", _find_user_site(asked.host.python))
    for name in ("torch.py", "torch/__init__.py"):
        if (torch_file := Path(asked.root) / name).is_file():
            yield ShadowingTorch("checkout", str(torch_file))


def _find_torch_in_folder(how: Any, folder: Path) -> Iterator[ShadowingTorch]:
    if torch := interpreters.find_torch([folder]):
        yield ShadowingTorch(how, torch.folder, torch.version)


def _find_user_site(python: Interpreter) -> Path:
    """Return the target folder of `pip install --user`.

    Source: https://docs.python.org/3/library/site.html
    """
    major, minor = python.version.split(".")[:2]
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", "~")) / f"Python/Python{major}{minor}/site-packages"
    base = os.environ.get("PYTHONUSERBASE") or "~/.local"
    home = os.path.expanduser(base)  # noqa: PTH111 - it handles a missing home
    return Path(home) / f"lib/python{major}.{minor}/site-packages"


def _find_installed_extensions(asked: ProbeRequest) -> Iterator[InstalledExtension]:
    """Yield the extensions that are installed next to an existing torch.

    Users install into that interpreter, too. Packages from an index have no direct_url.json (PEP
    610).
    """
    python = asked.host.python
    folders = [Path(python.torch.folder).parent] if python.torch else []
    for folder in [*folders, _find_user_site(python)]:
        for name in asked.distributions:
            for info in folder.glob(f"{name.replace('-', '_')}-*.dist-info"):
                version = info.name.removesuffix(".dist-info").rpartition("-")[2]
                indexed = not (info / "direct_url.json").is_file()
                yield InstalledExtension(name, version, str(folder), indexed)


_TOOLSET = "VC/Auxiliary/Build/Microsoft.VCToolsVersion.default.txt"


def read_tool_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """Read facts about compilers and build tools.

    These are `git`, `uv`, `cc`, `cxx`, `cmake`, `ninja`, `setuptools`, `hands_on`, `visual_studio`
    and `windows_sdk`.
    """
    facts: dict[str, Any] = {}
    if "uv" in wanted:
        facts["uv"] = Tool(environments.find_uv() or "")
    if "git" in wanted:
        facts["git"] = _find_tool("git")
    facts |= _find_distribution_tool(asked, wanted)
    if wanted & {"compiler", "known-bad", "torch-checks"}:
        facts["cc"], facts["cxx"] = _find_compilers(asked)
    if "cmake" in wanted:
        facts["cmake"] = _find_build_tool(asked.venv, "cmake")
        facts["setuptools"] = _find_setuptools(asked.venv)
    if "ninja" in wanted:
        facts["ninja"] = _find_build_tool(asked.venv, "ninja")
    if asked.host.system == "windows" and "visual-studio" in wanted:
        facts["visual_studio"] = find_visual_studios()
    if asked.host.system == "windows" and "windows-sdk" in wanted:
        facts["windows_sdk"] = list_windows_sdks(_find_windows_kits())
    return facts


def _find_distribution_tool(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Tool]:
    kind = asked.workers.kind
    if kind == "off" or "workers" not in wanted:
        return {}
    return {"hands_on": Tool(shutil.which(DISTRIBUTOR_PROGRAMS[kind]) or "")}


def _find_tool(name: str) -> Tool:
    program = toolchain.find_program(name)
    return Tool(program.path, program.version) if program else Tool()


def _find_compilers(asked: ProbeRequest) -> tuple[Tool, Tool]:
    try:
        compilers = toolchain.choose_compilers((asked.cc, asked.cxx), asked.limits)
    except MissingToolError as error:
        missing = Tool(why=error.message, todo=error.hint)
        return missing, missing
    cc, cxx = compilers.cc, compilers.cxx
    return Tool(cc.path, cc.version), Tool(cxx.path, cxx.version, why=compilers.why)


def _find_build_tool(venv: PurePath | None, name: str) -> Tool:
    """Return the tool of the build environment, else the one on PATH."""
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
    """Return every installation with its default toolset, None if vswhere is not available."""
    rows = msvc_toolsets.run_vswhere("-all", "-prerelease")
    return None if rows is None else tuple(_parse_installations(rows))


def _parse_installations(rows: Any) -> Iterator[VisualStudio]:
    for row in rows:
        name, version, folder = msvc_toolsets.parse_vswhere_row(row)
        yield VisualStudio(
            name, version, folder, tools=_read_toolset_version(Path(folder) / _TOOLSET)
        )


def _read_toolset_version(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig").strip()
    except OSError:
        return ""


def list_windows_sdks(kits: Path | None) -> tuple[str, ...]:
    """Return the versions that have windows.h, in ascending order."""
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


def read_gpu_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """Read `nvidia` and `nvcc`."""
    facts: dict[str, Any] = {}
    if wanted & {"cards", "targets", "driver"}:
        facts["nvidia"] = nvidia.query_driver()
    if wanted & {"toolkit", "known-bad", "torch-checks"} and asked.toolkit_home:
        facts["nvcc"] = _find_nvcc(Path(asked.toolkit_home))
    return facts


def _find_nvcc(home: Path) -> Tool:
    version = host_probe.read_nvcc_version(home)
    return Tool(toolchain.build_nvcc_path(str(home)), version) if version else Tool()


_READERS = (
    read_machine_facts,
    read_tool_facts,
    read_gpu_facts,
    read_python_facts,
    read_submodule_facts,
    read_conflict_facts,
    read_folder_facts,
)


def read_host_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> HostFacts:
    """Read the facts that the wanted checks need; network probes run while the rest is read."""
    answers = start_network_probes(asked, wanted)
    facts = HostFacts(asked.host, asked.root)
    for read_facts in _READERS:
        facts = replace(facts, **read_facts(asked, wanted))
    return replace(facts, **answers())
