"""Tests of distributed compilation: worker settings, checks and counts."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath

import pytest

from tasks.compiler_cache import distributed_compilation_io
from tasks.compiler_cache import distributed_compilation_io as distribute
from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.project import Project
from tasks.runlog.anonymizer import Anonymizer
from tasks.settings.compile_workers import (
    DISTRIBUTE_SCRIPT,
    DISTRIBUTE_VARIABLE,
    DistributionSettings,
    DistributorKind,
    Worker,
    build_distcc_variables,
    build_distribution_settings,
    count_compilations,
    find_worker_names,
    format_compilation_counts,
    parse_worker,
)
from tasks.settings.layers_io import load_settings
from tests.support.checkout import Heard, OnSystem, write
from tests.support.systems import posix_only

FOLDER = PurePosixPath("/y/build/p")
Distribution = AbstractContextManager[distribute.CompileDistribution]


@pytest.fixture(autouse=True)
def _reset_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start with no checked workers."""
    monkeypatch.setattr(distributed_compilation_io, "_usable_workers", {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.5", Worker("10.0.0.5", 3632, 4)),
        ("10.0.0.5/8", Worker("10.0.0.5", 3632, 8)),
        ("builder-2:4000/16,lzo", Worker("builder-2", 4000, 16, packed=True)),
        ("me@builder/8", Worker("builder", 3632, 8, user="me")),
    ],
)
def test_distcc_host_is_parsed(text: str, expected: Worker) -> None:
    assert parse_worker(text) == expected


def test_distcc_hosts_limit_local_slots() -> None:
    hosts = [parse_worker(text) for text in ("10.0.0.5/8", "b:4000/16,lzo", "me@c/2")]
    assert build_distcc_variables("distcc", hosts, 2)["DISTCC_HOSTS"] == (
        "--localslots=2 --localslots_cpp=2 10.0.0.5:3632/8 b:4000/16,lzo me@c/2"
    )


def read_settings_error(folder: Path, build: str) -> str:
    config = folder / "config"
    (config / "profiles").mkdir(parents=True)
    for name in ("default", "profiles/mine"):
        (config / f"{name}.yaml").write_text("target:\n  ptx: false\n", encoding="utf-8")
    (config / "local.yaml").write_text(f"build: {build}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as found:
        load_settings(Project.of_checkout(folder), "mine", {})
    return str(found.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ("{hosts: [--localslots=9]}", "build.hosts.0"),
        ("{hosts: ['@builder:rm -rf /']}", "build.hosts.0"),
        ("{hosts: ['me@builder:/tmp/evil']}", "build.hosts.0"),
        ("{hosts: ['a b/4']}", "build.hosts.0"),
        ("{hosts: ['a/4,cpp']}", "build.hosts.0"),
        ("{hosts: ['me@builder:22/4']}", "~/.ssh/config"),
        ("{hosts: [a/2, localhost/2]}", "build.hosts.1: localhost is not a worker"),
        ("{hosts: [a:99999/2]}", 'build.hosts.0: "a:99999/2": a port is a number from 1 to 65535'),
        ("{hosts: [a:0]}", "a port is a number from 1"),
        ("{distribute: distcc}", "build.distribute: distcc requires build.hosts"),
        ("{distribute: distcc, hosts: [a/2, a/4]}", "build.hosts: the same host is listed twice"),
        (
            "{distribute: distcc, hosts: [a/2], cache: sccache}",
            "build.distribute: sccache cannot use distcc: set build.cache",
        ),
        ("{distribute: icecream, hosts: [a/2, b/2]}", "one entry: the scheduler"),
        ("{distribute: icecream, hosts: ['a/2,lzo']}", "requires the address of the scheduler"),
        (
            "{distribute: sccache-dist, hosts: [a/2], cache: sccache}",
            "sccache-dist is no longer supported: set build.distribute: distcc or icecream",
        ),
    ],
)
def test_invalid_distribution_settings_are_refused_at_load(
    tmp_path: Path, build: str, message: str
) -> None:
    assert message in read_settings_error(tmp_path, build)


def test_invalid_host_is_reported_with_line_or_variable(yard: Path) -> None:
    config = yard / "config"
    write(yard, "build: {type: Release}\n")
    (config / "local.yaml").write_text(
        'build:\n  hosts: ["a/2",\n    "localhost/4"]\n', encoding="utf-8"
    )
    with pytest.raises(SettingsError, match=r"^config/local\.yaml:3: build\.hosts\.1: localhost"):
        load_settings(Project.of_checkout(yard), "mine", {})
    (config / "local.yaml").unlink()
    name = "TORCHYARD__BUILD__DISTRIBUTE"
    with pytest.raises(SettingsError, match=rf"^{name}: build\.distribute: distcc requires"):
        load_settings(Project.of_checkout(yard), "mine", {name: "distcc"})


def test_compilations_per_host_are_read_from_distcc_log() -> None:
    log = [
        "distcc[7] (dcc_lock_host) got cpu lock on 10.0.0.5/4 slot 0 as fd4",
        "distcc[7] cpp a.cpp on localhost completed ok",
        "distcc[7] compile a.cpp on 10.0.0.5:3632/4 completed ok",
        "distcc[8] compile b.cpp on me@b/4,lzo completed ok",
        "distcc[9] compile c.cpp on localhost completed ok",
        "distcc[10] compile (null) on localhost completed ok",
        "distcc[11] compile d.cpp on 10.0.0.5:3632/4 failed",
    ]
    counts = count_compilations("distcc", log)
    assert counts == {"10.0.0.5": 1, "b": 1, "here": 1}
    assert (
        format_compilation_counts("distcc", counts)
        == "distcc distributed the compilations: 1 to 10.0.0.5, 1 to b, 1 to this machine"
    )


def test_compilations_per_host_are_read_from_icecream_log() -> None:
    log = [
        "ICECC[7] 2026-11-22 21:37:36: asking for host to use",
        "ICECC[7] 2026-11-22 21:37:36: Have to use host 10.0.0.5:10245 - Job ID: 17 - env: x86_64",
        "ICECC[8] 2026-11-22 21:37:36: building myself, but telling localhost",
        "ICECC[9] 2026-11-22 21:37:56: neither -c nor -S argument, building locally",
    ]
    assert count_compilations("icecream", log) == {"10.0.0.5": 1, "here": 1}


def test_report_hides_worker_names() -> None:
    hosts = find_worker_names(
        {"build.hosts": ["me@builder2/8", "10.0.0.5:3632/4,lzo"], "build.jobs": 4}
    )
    assert hosts == ("builder2", "10.0.0.5")
    cleaned = Anonymizer(hosts=hosts).clean_text(
        "distcc distributed the compilations: 3 to 10.0.0.5, 4 to builder2, 0 to this machine"
    )
    assert cleaned == "distcc distributed the compilations: 3 to HOST, 4 to HOST, 0 to this machine"


@posix_only
@pytest.mark.parametrize(
    ("compiler", "distributor", "expected"),
    [
        ("g++", "echo", "{tmp}/g++ -c a.cpp"),
        ("nvcc", "echo", "called nvcc -c a.cpp"),
        ("g++", "", "called g++ -c a.cpp"),
    ],
)
def test_wrapper_script_distributes_all_but_nvcc(
    tmp_path: Path, compiler: str, distributor: str, expected: str
) -> None:
    script = tmp_path / "distribute"
    distribute.write_wrapper_script(str(script))
    assert script.read_text(encoding="utf-8") == DISTRIBUTE_SCRIPT
    program = tmp_path / compiler
    program.write_text(f'#!/bin/sh\necho called {compiler} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", **({DISTRIBUTE_VARIABLE: distributor} if distributor else {})}
    argv = [str(script), str(program), "-c", "a.cpp"]
    done = subprocess.run(argv, env=env, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == expected.format(tmp=tmp_path)


def build_distributed_environment(
    workers: DistributionSettings, launcher: str, env: dict[str, str], tmp_path: Path
) -> dict[str, str]:
    compilers = ("/usr/bin/gcc", "/usr/bin/g++")
    with distribute.distribute_compilations(
        workers, launcher, compilers, env, tmp_path / "log"
    ) as distributed:
        return dict(distributed.env)


@posix_only
@pytest.mark.parametrize(
    ("kind", "launcher", "warning"),
    [
        ("distcc", "/usr/bin/sccache", "sccache does not work with distcc"),
        ("distcc", "", "configured without a compiler launcher"),
        ("distcc", "/usr/bin/ccache", "CCACHE_PREFIX is already set to mine"),
    ],
)
def test_impossible_distribution_is_warning_and_unchanged_environment(
    tmp_path: Path, heard: Heard, kind: DistributorKind, launcher: str, warning: str
) -> None:
    (tmp_path / "distcc").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "distcc").chmod(0o755)
    env = {"PATH": str(tmp_path), "CCACHE_PREFIX": "mine"}
    assert (
        build_distributed_environment(
            build_distribution_settings(kind, ["a/2"], FOLDER), launcher, env, tmp_path
        )
        == env
    )
    assert [text for text in heard if warning in text]


@pytest.fixture
def start_distribution(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Distribution]:
    """Return a function that distributes through ccache and distcc to usable workers."""
    monkeypatch.setattr(distribute, "find_usable_workers", lambda requested, *_: requested.hosts)
    for name in ("distcc", "icecc"):
        program(tmp_path / name, "")

    def start(kind: DistributorKind = "distcc", **env: str) -> Distribution:
        compilers = ("/usr/bin/gcc", "/usr/bin/g++")
        given = {"PATH": str(tmp_path), **env}
        machines = build_distribution_settings(kind, ["a/2"], tmp_path)
        return distribute.distribute_compilations(
            machines, "/usr/bin/ccache", compilers, given, tmp_path / "log"
        )

    return start


COMPILED = "distcc[7] compile a.cpp on a:3632/2 completed ok\n"


@posix_only
def test_failed_build_keeps_compilations_per_worker(
    start_distribution: Callable[..., Distribution], tmp_path: Path, heard: Heard
) -> None:
    def build(distributed: distribute.CompileDistribution) -> None:
        assert distributed.env["DISTCC_LOG"] == str(tmp_path / "log")
        (tmp_path / "log").write_text(COMPILED, encoding="utf-8")
        raise TorchyardError("no more")

    start = start_distribution()
    with pytest.raises(TorchyardError, match="no more"), start as distributed:
        build(distributed)
    assert distributed.noted == {"workers": {"kind": "distcc", "by_host": {"a": 1}}}
    assert list(heard) == ["distcc distributed the compilations: 1 to a, 0 to this machine"]
    assert not (tmp_path / "log").exists()


@posix_only
@pytest.mark.parametrize(
    ("kind", "user_env", "variable"),
    [
        ("distcc", {"DISTCC_LOG": "mine", "DISTCC_VERBOSE": "0"}, "DISTCC_LOG"),
        ("distcc", {"DISTCC_LOG": "mine"}, "DISTCC_VERBOSE"),
        ("distcc", {"DISTCC_VERBOSE": "1"}, "DISTCC_LOG"),
        ("icecream", {"ICECC_DEBUG": "warn"}, "ICECC_LOGFILE"),
    ],
)
def test_user_distribution_log_is_kept_and_not_counted(
    start_distribution: Callable[..., Distribution],
    heard: Heard,
    kind: DistributorKind,
    user_env: dict[str, str],
    variable: str,
) -> None:
    with start_distribution(kind, **user_env) as distributed:
        assert {**distributed.env, **user_env} == distributed.env
        assert distributed.env.get(variable) == user_env.get(variable)
    assert distributed.noted == {}
    names = " and ".join(user_env)
    assert list(heard) == [
        f"torchyard cannot count the compilations per worker: build.env sets {names}"
    ]


@posix_only
@pytest.mark.parametrize(
    ("daemon", "warning"),
    [
        ("asking for host to use", ""),
        (
            "connect failed",
            "iceccd is not running on this machine; run: sudo systemctl start",
        ),
    ],
)
def test_icecream_needs_scheduler_and_local_daemon(
    tmp_path: Path, heard: Heard, daemon: str, warning: str
) -> None:
    program(
        tmp_path / "bin" / "icecc", f'echo "ICECC[1] 12:00: {daemon}" >"$ICECC_LOGFILE"; exec "$@"'
    )
    with socket.create_server(("127.0.0.1", 0)) as scheduler:
        machines = build_distribution_settings(
            "icecream", [f"127.0.0.1:{scheduler.getsockname()[1]}/32"], tmp_path
        )
        env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
        compilers = ("/usr/bin/gcc", "/usr/bin/g++")
        with distribute.distribute_compilations(
            machines, "/usr/bin/ccache", compilers, env, tmp_path / "log"
        ) as found:
            assert found.slots == (0 if warning else 32)
    assert any(warning in text for text in heard) if warning else list(heard) == []


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@posix_only
def test_missing_distcc_is_reported_with_install_command(
    tmp_path: Path, heard: Heard, on_system: OnSystem
) -> None:
    on_system("debian")
    env = {"PATH": str(tmp_path)}
    assert (
        build_distributed_environment(
            build_distribution_settings("distcc", ["a/2"], FOLDER), "/usr/bin/ccache", env, tmp_path
        )
        == env
    )
    assert heard == [
        "no compilation is sent to workers: distcc is not installed; run: sudo apt install distcc"
    ]
