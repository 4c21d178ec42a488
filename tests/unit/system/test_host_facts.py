"""Host facts are read from real files and small programs, without network and without writing."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tasks.core.check_ids import ALL_CHECK_IDS, GATE_CHECK_IDS, CheckId
from tasks.core.errors import MissingToolError
from tasks.core.model import Host, InstalledTorch, Interpreter
from tasks.core.project import Project
from tasks.doctor import folder_facts_io, host_facts_io
from tasks.doctor.examine_host import INDEX, build_probe_request, check_host
from tasks.doctor.host_facts import (
    VARIABLES,
    InstalledExtension,
    Leftover,
    ProbeRequest,
    RequiredUrl,
    ShadowingTorch,
    Tool,
    UnsafePath,
    VisualStudio,
)
from tasks.doctor.host_facts_io import read_host_facts
from tasks.knowledge.gpus import NvidiaDriver
from tasks.knowledge.mirrors import apply_mirror
from tasks.system import files, process_group, shell
from tasks.system.git import clones
from tasks.system.hardware import nvidia, toolchain
from tasks.system.network import package_indexes
from tests.support.checkout import HOST, KNOWLEDGE, opened, write
from tests.support.systems import is_wine

unix = pytest.mark.skipif(sys.platform == "win32", reason="programs are shell scripts here")
SELF = Interpreter(sys.executable, ".".join(map(str, sys.version_info[:3])))


def request_facts(root: Path, **more: Any) -> ProbeRequest:
    host = more.pop("host", Host("linux", "x86_64", SELF))
    return ProbeRequest(
        Project.of_checkout(root), host, (("build", root / "build" / "mine"),), **more
    )


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the driver, the network and the settings of the user who runs the tests."""
    monkeypatch.setattr(nvidia, "query_driver", NvidiaDriver)
    monkeypatch.setattr(clones, "is_reachable", lambda _: True)
    monkeypatch.setattr(package_indexes, "list_pip_files", lambda: iter(()))
    monkeypatch.setattr(package_indexes, "list_uv_files", lambda: iter(()))
    home = str(tmp_path / "home")
    for name in ("HOME", "USERPROFILE", "APPDATA", "PYTHONUSERBASE"):
        monkeypatch.setenv(name, home)
    for name in (
        *VARIABLES,
        *package_indexes.UV_INDEX_VARIABLES,
        *package_indexes.PIP_INDEX_VARIABLES,
        "PYTHONPATH",
        "CONDA_PREFIX",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in host_facts_io._PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def listing(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))


def test_reading_host_facts_writes_nothing(yard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(yard / "tmp"))
    subject = opened(yard, on=replace(HOST, python=SELF))
    profile = subject.opened
    assert profile
    before = listing(yard)
    asked = build_probe_request(subject.project, profile.host, profile)
    found = read_host_facts(asked, ALL_CHECK_IDS)
    assert listing(yard) == before
    results = check_host(found, profile, KNOWLEDGE)
    silent = (
        {"trust"} if sys.platform == "win32" else set()
    )  # Windows has a different permission model
    silent |= {"swap"} if is_wine() else set()  # Wine has no performance counters
    assert {symptom.id for symptom in results if symptom.level == "not checked"} == silent


@unix
def test_world_writable_folders_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, tools, mine = (tmp_path / name for name in ("yard", "tools", "mine"))
    for folder in (root, root / "config", tools, mine):
        folder.mkdir()
    (root / "config").chmod(0o777)
    tools.chmod(0o1777)
    monkeypatch.setenv("PATH", f"{mine}:{tools}:.:{tmp_path / 'nowhere'}::bin")
    monkeypatch.setattr(folder_facts_io, "list_mounts", lambda: iter(()))
    found = folder_facts_io.find_unsafe_paths(request_facts(root))
    assert found == (
        UnsafePath("folder", str(root / "config")),
        UnsafePath("PATH", str(tools)),
        *(UnsafePath("relative", entry) for entry in (".", "", "bin")),
    )


@unix
def test_filesystem_without_owners_has_no_unsafe_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setattr(folder_facts_io, "list_mounts", lambda: iter([(tmp_path, "drvfs")]))
    assert folder_facts_io.find_unsafe_paths(request_facts(tmp_path)) == ()


def test_gate_starts_no_slow_program_and_uses_no_network(
    yard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> Any:
        raise AssertionError("asked")

    for place, name in (
        (clones, "is_reachable"),
        (process_group, "list_running_programs"),
        (host_facts_io, "start_url_probes"),
    ):
        monkeypatch.setattr(place, name, never)
    profile = opened(yard, on=replace(HOST, python=SELF)).opened
    assert profile
    found = read_host_facts(
        build_probe_request(Project.of_checkout(yard), profile.host, profile), GATE_CHECK_IDS
    )
    assert {
        symptom.id for symptom in check_host(found, profile, KNOWLEDGE, GATE_CHECK_IDS)
    } == GATE_CHECK_IDS
    assert (found.reach, found.leftovers, found.shadows) == (None, None, None)


def test_unrequested_facts_are_not_read(tmp_path: Path) -> None:
    found = read_host_facts(request_facts(tmp_path), frozenset({"memory"}))
    assert found.memory
    assert found.memory.limit_mib <= found.memory.total_mib
    assert found.memory.available_mib <= found.memory.limit_mib
    assert (found.git, found.cxx, found.disks, found.nvidia) == (None, None, None, None)


def test_stalled_resolver_does_not_block_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, ended = threading.Event(), list[str]()

    def stalls(url: str) -> bool:
        if "quick" not in url:
            over.wait(30)
            ended.append(url)
        return "quick" in url

    monkeypatch.setattr(clones, "is_reachable", stalls)
    monkeypatch.setattr(host_facts_io, "DEADLINE", 2.0)
    names = (*(f"slow{n}" for n in range(20)), "quick")
    urls = tuple(RequiredUrl(name, f"https://{name}.example/a") for name in names)
    found = read_host_facts(request_facts(tmp_path, urls=urls), frozenset({"git-hosts"})).reach
    assert ended == []
    over.set()
    assert [reach.subject for reach in found or () if reach.answers] == ["quick"]


def test_name_resolution_runs_in_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, ended = threading.Event(), list[object]()

    def stalls(host: object, *_: object, **__: object) -> None:
        over.wait(30)
        ended.append(host)
        raise OSError("nobody answered")

    monkeypatch.undo()
    monkeypatch.setattr(socket, "getaddrinfo", stalls)
    assert host_facts_io.start_url_probes(["https://nowhere.example:1/a"], 0.2)() == {}
    assert ended == []
    over.set()


@pytest.mark.parametrize("url", ["https://[/a", "https://a:99999/b", "https:///a"])
def test_invalid_url_does_not_answer(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.undo()
    assert host_facts_io.start_url_probes([url], 2)() == {url: False}


def test_probed_hosts_have_no_passwords_and_follow_pip_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = (
        RequiredUrl(INDEX, "https://pypi.org/simple", usual=True),
        RequiredUrl("a", "https://me:hunter2@git.example/a", optional=True),
    )
    wanted = frozenset[CheckId]({"index", "git-hosts"})
    asked = request_facts(tmp_path, urls=urls)
    assert read_host_facts(asked, wanted).reach == (
        RequiredUrl(INDEX, "https://pypi.org/simple", answers=True, usual=True),
        RequiredUrl("a", "https://***@git.example/a", answers=True, optional=True),
    )
    conf = tmp_path / "pip.conf"
    conf.write_text("[global]\nindex-url = https://mirror.example/simple\n", encoding="utf-8")
    monkeypatch.setattr(package_indexes, "list_pip_files", lambda: iter([tmp_path / "none", conf]))
    (found, _) = read_host_facts(asked, wanted).reach or ()
    assert found.url == "https://mirror.example/simple"
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:hunter2@env.example/simple")
    (found, _) = read_host_facts(asked, wanted).reach or ()
    assert found.url == "https://***@env.example/simple"


def test_earlier_build_makes_hosts_optional(tmp_path: Path) -> None:
    there = tmp_path / "wheel.json"
    there.touch()
    urls = (RequiredUrl("a", "https://git.example/a"),)
    given = request_facts(tmp_path, urls=urls, begun=(there,))
    (found,) = read_host_facts(given, frozenset({"git-hosts"})).reach or ()
    assert found.optional


def test_proxies_are_reported_without_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://me:hunter2@proxy.example:3128")
    monkeypatch.setenv("all_proxy", "nonsense://")
    given = dict.fromkeys(["https_proxy", "all_proxy"])
    proxies = host_facts_io._read_proxies()
    found = {name: proxies[name] for name in given}
    assert found == {"https_proxy": "proxy.example:3128", "all_proxy": ""}


def test_most_specific_mirror_is_probed() -> None:
    mirrors = {"https://a.example/": "https://m/", "https://a.example/x/": "https://x/"}
    assert apply_mirror("https://a.example/x/y.git", mirrors) == "https://x/y.git"
    assert apply_mirror("https://b.example/y.git", mirrors) == "https://b.example/y.git"


def test_probe_request_covers_all_profile_needs(yard: Path) -> None:
    write(
        yard,
        "{torch: {strategy: source}, target: {gpus: []}, build: {env: {CXX: g++-13}}, extensions: "
        "[{name: a, git: 'https://a.example/a', optional: true}], "
        "source: {mirrors: {'https://github.com/': 'https://m.example/'}}}",
    )
    profile = opened(yard).opened
    assert profile
    found = build_probe_request(Project.of_checkout(yard), profile.host, profile)
    assert found.deps
    assert found.deps.cxx == "g++-13"
    assert [(url.subject, url.url, url.optional) for url in found.urls] == [
        (INDEX, "https://pypi.org/simple", False),
        ("PyTorch's tree", "https://m.example/pytorch/pytorch.git", False),
        ("a", "https://a.example/a", True),
    ]
    assert [what for what, _ in found.places] == ["build", "environment", "wheels"]
    assert build_probe_request(Project.of_checkout(yard), profile.host, None).urls == ()


def test_user_tree_is_where_disk_space_is_needed(yard: Path) -> None:
    write(yard, f"{{torch: {{strategy: source}}, source: {{path: '{yard.as_posix()}/tree'}}}}")
    profile = opened(yard).opened
    assert profile
    (first, second, *_) = build_probe_request(
        Project.of_checkout(yard), profile.host, profile
    ).places
    assert first == ("build", type(first[1])(f"{yard.as_posix()}/tree"))
    assert second[0] == "environment"


def test_folders_on_same_disk_are_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    found = list(folder_facts_io.list_disks(request_facts(tmp_path)))
    assert [disk.main_place for disk in found] == ["build"]
    assert found[0].path == str(tmp_path / "build" / "mine")
    assert found[0].free_mib > 0


@unix
def test_filesystem_is_that_of_deepest_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    spaced = tmp_path / "my disk"
    spaced.mkdir()
    escaped = str(spaced).replace(" ", "\\040")
    mounts.write_text(f"/dev/a / ext4 rw 0 0\ntmpfs {escaped} tmpfs rw 0 0\n", encoding="utf-8")
    monkeypatch.setattr(folder_facts_io, "_MOUNTS", mounts)
    kinds = tuple(folder_facts_io.list_mounts())
    assert folder_facts_io.find_filesystem_type(spaced, kinds) == "tmpfs"
    assert folder_facts_io.find_filesystem_type(tmp_path, kinds) == "ext4"
    monkeypatch.setattr(folder_facts_io, "_MOUNTS", tmp_path / "none")
    assert list(folder_facts_io.list_mounts()) == []


def test_earlier_build_is_detected_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        process_group, "list_running_programs", lambda run: ("ninja",) if "dead" in run else ()
    )
    for name, run in (("one", "4711-beef"), ("two", "999999999-dead")):
        folder = files.create_owned_folder(tmp_path / "build" / name)
        (folder / files._HOLDER_FILE).write_text(run, encoding="utf-8")
    foreign = tmp_path / "build" / "mine"
    foreign.mkdir()
    (foreign / "thesis.tex").touch()
    monkeypatch.setattr(psutil, "pid_exists", lambda pid: pid == 4711)
    before = listing(tmp_path)
    assert tuple(folder_facts_io.find_leftovers(request_facts(tmp_path, build=foreign))) == (
        Leftover("foreign", str(foreign)),
        Leftover("running", str(tmp_path / "build" / "one")),
        Leftover("killed", str(tmp_path / "build" / "two"), ("ninja",)),
    )
    assert listing(tmp_path) == before


def torch_at(folder: Path, version: str = "2.1.0") -> Path:
    (folder / "torch").mkdir(parents=True)
    text = f"__version__ = '{version}'\n"
    (folder / "torch" / "version.py").write_text(text, encoding="utf-8")
    return folder / "torch"


@unix
def test_other_torches_are_found_on_interpreter_search_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = torch_at(tmp_path / "libs")
    in_conda = torch_at(tmp_path / "conda" / "lib" / "python3.11" / "site-packages", "2.2.0")
    major, minor = sys.version_info[:2]
    at_home = torch_at(tmp_path / "home" / f"lib/python{major}.{minor}/site-packages", "2.3.0")
    (tmp_path / "torch.py").touch()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", str(tmp_path / "libs"), "/nowhere"]))
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    assert tuple(host_facts_io._find_shadowing_torches(request_facts(tmp_path))) == (
        ShadowingTorch("PYTHONPATH", str(on_path), "2.1.0"),
        ShadowingTorch("conda", str(in_conda), "2.2.0"),
        ShadowingTorch("user site", str(at_home), "2.3.0"),
        ShadowingTorch("checkout", str(tmp_path / "torch.py")),
    )


def test_index_package_is_distinguished_from_local_file(tmp_path: Path) -> None:
    torch = torch_at(tmp_path)
    for name, url in (("simple_knn-1.2", False), ("gsplat-1.0", True)):
        info = tmp_path / f"{name}.dist-info"
        info.mkdir()
        if url:
            (info / "direct_url.json").touch()
    host = Host(
        "linux", "x86_64", Interpreter("/p", "3.12.1", InstalledTorch("2", None, str(torch)))
    )
    sources = tuple((name, tmp_path) for name in ("simple-knn", "gsplat"))
    given = request_facts(tmp_path, host=host, build=tmp_path, sources=sources)
    assert host_facts_io._find_installed_extensions(given) == (
        InstalledExtension("simple-knn", "1.2", str(tmp_path), indexed=True),
        InstalledExtension("gsplat", "1.0", str(tmp_path), indexed=False),
    )


def test_bitness_of_current_python_is_known() -> None:
    assert host_facts_io._read_python_bits(sys.executable) == 64
    assert host_facts_io._read_python_bits("/no/such/python") is None


@unix
def test_bitness_of_other_python_is_queried(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 32\n", encoding="utf-8")
    other.chmod(0o755)
    assert host_facts_io._read_python_bits(str(other)) == 32


@unix
def test_environment_tools_take_precedence_over_path(tmp_path: Path) -> None:
    ninja = tmp_path / "venv" / "bin" / "ninja"
    ninja.parent.mkdir(parents=True)
    ninja.write_text("#!/bin/sh\necho 1.11.1\n", encoding="utf-8")
    ninja.chmod(0o755)
    (tmp_path / "venv/lib/python3.12/site-packages/setuptools-81.0.0.dist-info").mkdir(parents=True)
    assert host_facts_io._find_build_tool(tmp_path / "venv", "ninja") == Tool(str(ninja), "1.11.1")
    assert host_facts_io._find_setuptools(tmp_path / "venv").version == "81.0.0"
    assert host_facts_io._find_setuptools(None) == Tool()


def test_missing_compiler_fact_repeats_search_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> Any:
        raise MissingToolError("g++ is too new", hint="apt install g++-14")

    monkeypatch.setattr(toolchain, "choose_compilers", none)
    found = read_host_facts(request_facts(tmp_path), frozenset({"compiler"}))
    assert found.cxx == Tool(why="g++ is too new", todo="apt install g++-14")


def test_visual_studio_is_read_from_vswhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = tmp_path / "VC/Auxiliary/Build/Microsoft.VCToolsVersion.default.txt"
    version.parent.mkdir(parents=True)
    version.write_text("\ufeff14.44.35207\n", encoding="utf-8")
    rows = [
        {"installationPath": str(tmp_path), "displayName": "Visual Studio Build Tools 2022",
         "installationVersion": "17.14.36414.22", "catalog": {"productDisplayVersion": "17.14.13"}},
        {"installationPath": "/nowhere", "displayName": "Visual Studio Community 2022",
         "installationVersion": "17.9.1"},
    ]  # fmt: skip
    monkeypatch.setattr(shell, "capture_output", lambda _: json.dumps(rows))
    assert host_facts_io.find_visual_studios() == (
        VisualStudio("Visual Studio Build Tools 2022", "17.14.13", str(tmp_path), "14.44.35207"),
        VisualStudio("Visual Studio Community 2022", "17.9.1", "/nowhere"),
    )
    monkeypatch.setattr(shell, "capture_output", lambda _: "no json")
    assert host_facts_io.find_visual_studios() is None


def test_windows_sdk_requires_headers(tmp_path: Path) -> None:
    for name in ("10.0.22621.0", "10.0.26100.0"):
        folder = tmp_path / "Include" / name / "um"
        folder.mkdir(parents=True)
        (folder / "Windows.h").touch()
    (tmp_path / "Include" / "10.0.19041.0" / "um").mkdir(parents=True)
    assert host_facts_io.list_windows_sdks(tmp_path) == ("10.0.22621.0", "10.0.26100.0")
    assert host_facts_io.list_windows_sdks(None) == ()


def test_only_checked_variables_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_JOBS", "4")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    assert read_host_facts(request_facts(tmp_path), frozenset()).environ == {"MAX_JOBS": "4"}


def test_unreadable_disks_are_omitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> Any:
        raise OSError("stale")

    monkeypatch.setattr(shutil, "disk_usage", none)
    assert list(folder_facts_io.list_disks(request_facts(tmp_path))) == []


def test_unreported_swap_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disabled() -> object:
        raise RuntimeError("PdhAddEnglishCounterW failed. Performance counters may be disabled.")

    monkeypatch.setattr(psutil, "swap_memory", disabled)
    assert host_facts_io._measure_memory(request_facts(tmp_path)).swap_mib is None
