"""Tests of the remote compiler cache: variables of each program, and servers that fail."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.cli.commands import settings as settings_report
from tasks.compiler_cache import cache_program_io, remote_cache_io
from tasks.compiler_cache.cache_program_io import CacheCounts, read_log_counts
from tasks.core.deps_model import CompilerCache
from tasks.core.errors import CommandFailedError, SettingsError
from tasks.core.model import Command, Layout
from tasks.core.project import Project
from tasks.jobs.job_scheduler_io import JobScheduler
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.runlog import build_history_io
from tasks.settings.cache_urls import (
    build_cache_variables,
    explain_unsupported_url,
    parse_cache_account,
    parse_cache_address,
)
from tasks.settings.compile_workers import DistributionSettings
from tasks.settings.layers_io import load_settings
from tasks.settings.schema import parse_settings
from tasks.stages.compile import run as compile_action
from tasks.stages.compile.build_folder_decision import FolderDecision
from tasks.stages.compile.run import CompileStatistics
from tasks.stages.env.model import CacheEnvironment, Environment
from tasks.stages.extensions import extension_build_io, extension_environment_io
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.extensions.plan import plan_extension
from tasks.stages.source.model import SourceTree
from tasks.system import files, manifests
from tests.support.actionyard import CHOICE
from tests.support.checkout import KNOWLEDGE, Heard, opened, write
from tests.support.redisserver import kept_port
from tests.support.rows import each_row
from tests.support.systems import posix_only

CCACHE = CompilerCache("ccache", "/usr/bin/ccache", "4.7.5")
TIMES = "|connect-timeout=500|operation-timeout=2000"
SCCACHE = CompilerCache("sccache", "/usr/bin/sccache", "0.16.0")


@pytest.fixture(autouse=True)
def _reset_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start with no probed server and a ccache with all storage backends."""
    monkeypatch.setattr(remote_cache_io, "_usable_by_url", {})
    monkeypatch.setattr(
        remote_cache_io, "_read_ccache_features", lambda _: "redis-storage http-storage"
    )


@each_row(
    ("kind", "version", "url", "expected"),
    [
        ("ccache", "4.7.5", "redis://h:1", {"CCACHE_REMOTE_STORAGE": f"redis://h:1{TIMES}"}),
        ("ccache", "4.7.5", "redis://:pw@h", {"CCACHE_REMOTE_STORAGE": f"redis://pw@h{TIMES}"}),
        ("ccache", "4.7.5", "redis://me:pw@h", {
            "CCACHE_REMOTE_STORAGE": f"redis://me:pw@h{TIMES}",
        }),
        ("ccache", "4.7.5", "redis://h|read-only", {
            "CCACHE_REMOTE_STORAGE": f"redis://h|read-only{TIMES}",
        }),
        ("ccache", "4.7.5", "redis://h|operation-timeout=90", {
            "CCACHE_REMOTE_STORAGE": "redis://h|operation-timeout=90",
        }),
        ("ccache", "4.10", "http://h/p", {"CCACHE_REMOTE_STORAGE": f"http://h/p{TIMES}"}),
        ("ccache", "4.6.1", "redis://h", {"CCACHE_SECONDARY_STORAGE": f"redis://h{TIMES}"}),
        ("sccache", "0.16.0", "redis://h:1/2", {
            "SCCACHE_REDIS_ENDPOINT": "redis://h:1", "SCCACHE_REDIS_DB": "2",
        }),
        ("sccache", "0.16.0", "rediss://me:p%40ss@h", {
            "SCCACHE_REDIS_ENDPOINT": "rediss://h", "SCCACHE_REDIS_USERNAME": "me",
            "SCCACHE_REDIS_PASSWORD": "p@ss",
        }),
        ("sccache", "0.16.0", "https://me:pw@h:8/a/b", {
            "SCCACHE_WEBDAV_ENDPOINT": "https://h:8", "SCCACHE_WEBDAV_KEY_PREFIX": "a/b",
            "SCCACHE_WEBDAV_USERNAME": "me", "SCCACHE_WEBDAV_PASSWORD": "pw",
        }),
        ("sccache", "0.16.0", "s3://bucket/torch", {
            "SCCACHE_BUCKET": "bucket", "SCCACHE_S3_KEY_PREFIX": "torch",
        }),
    ],
)  # fmt: skip
def test_url_becomes_variables_of_each_program(
    kind: str, version: str, url: str, expected: dict[str, str]
) -> None:
    assert build_cache_variables(kind, version, url) == expected


def test_single_credential_is_password_for_redis_and_user_elsewhere() -> None:
    assert (
        parse_cache_account("redis://pw@h").user,
        parse_cache_account("redis://pw@h").password,
    ) == ("", "pw")
    assert (
        parse_cache_account("http://me@h").user,
        parse_cache_account("http://me@h").password,
    ) == ("me", "")


def test_url_with_unsupported_storage_is_explained() -> None:
    assert not explain_unsupported_url("ccache", "file-storage redis-storage", "redis://h")
    assert "does not support redis" in explain_unsupported_url(
        "ccache", "file-storage", "redis://h"
    )
    assert "does not support s3" in explain_unsupported_url(
        "ccache", "file-storage redis-storage http-storage", "s3://b"
    )
    assert not explain_unsupported_url("sccache", "", "s3://b")
    assert "only ccache reads" in explain_unsupported_url("sccache", "", "redis://h|read-only")


def test_url_attributes_are_not_part_of_address() -> None:
    assert parse_cache_address("redis://:pw@h:6380|read-only") == ("h", 6380)
    assert parse_cache_address("redis://h|read-only") == ("h", 6379)
    assert parse_cache_address("redis://[::1]:7") == ("::1", 7)


@contextmanager
def server(*answers: bytes) -> Iterator[str]:
    """Run a server that sends these answers, whatever the requests."""
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def serve() -> None:
            line, _ = listening.accept()
            with line:
                for answer in answers:
                    line.recv(512)
                    line.sendall(answer)
                line.recv(512)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def open_remote(cache: CompilerCache, url: str, env: dict[str, str]) -> dict[str, str]:
    """Return the environment of a build; a URL without a password writes no file."""
    with remote_cache_io.open_remote_environment(cache, url, env, PurePath("nowhere")) as given:
        return given


def test_responding_server_is_used_and_probed_once(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_cache_io, "_CONNECT_TIMEOUT", 60.0)
    with server(b"+PONG\r\n") as place:
        for _ in range(2):
            given = open_remote(CCACHE, f"redis://{place}", {"A": "1"})
            assert given == {"A": "1", "CCACHE_REMOTE_STORAGE": f"redis://{place}{TIMES}"}
    assert heard == []


def ccache(folder: Path) -> CompilerCache:
    """Create a program that prints its user's configuration as ccache does."""
    path = folder / "ccache"
    text = "(/etc/ccache.conf) max_size = 5.0G\n(default) umask =\n(environment) stats = true\n"
    path.write_text(f"#!/bin/sh\ncat <<'EOF'\n{text}EOF\n", encoding="utf-8")
    path.chmod(0o755)
    return CompilerCache("ccache", str(path), "4.9")


@posix_only
@pytest.mark.parametrize("origin", ["setting", "user"])
def test_ccache_password_is_in_temporary_config_file(
    origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_cache_io, "_find_obstacle", lambda *_: "")
    url = "redis://:hunter$2@cache"
    if origin == "user":
        monkeypatch.setenv("CCACHE_REMOTE_STORAGE", f"redis://hunter$2@cache{TIMES}")
        url = ""
    with remote_cache_io.open_remote_environment(
        ccache(tmp_path), url, {"A": "1"}, tmp_path
    ) as env:
        file = tmp_path / "ccache.conf"
        assert env == {"A": "1", "CCACHE_CONFIGPATH": str(file)}
        assert file.stat().st_mode & 0o777 == 0o600
        shared = f"remote_storage = redis://hunter%242@cache{TIMES}\n"
        assert file.read_text(encoding="utf-8") == f"max_size = 5.0G\n{shared}"
    assert not file.exists()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"-NOAUTH Authentication required.\r\n", "NOAUTH Authentication required."),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP/1.1 400 Bad Request"),
        (b"", "no answer within 1 s"),
    ],
)
def test_refusing_or_silent_server_is_one_warning_and_local_build(
    heard: Heard, monkeypatch: pytest.MonkeyPatch, answer: bytes, why: str
) -> None:
    monkeypatch.setattr(remote_cache_io, "_CONNECT_TIMEOUT", 60.0 if answer else 0.6)
    with server(answer) as place:
        for _ in range(3):
            env = open_remote(CCACHE, f"redis://{place}", {"A": "1"})
            assert env == {"A": "1"}
    assert list(heard) == [
        (
            f"the remote compiler cache redis://{place} is not used, so "
            f"compilations are cached on this machine only: {why}"
        )
    ]


@pytest.mark.parametrize("scheme", ["redis", "rediss", "http", "https"])
@pytest.mark.parametrize("cache", [CCACHE, SCCACHE], ids=lambda cache: cache.kind)
def test_unreachable_server_warning_hides_password(
    heard: Heard, cache: CompilerCache, scheme: str
) -> None:
    with kept_port() as nobody:
        url = f"{scheme}://me:hunter2@127.0.0.1:{nobody}/p"
        assert open_remote(cache, url, {}) == {}
    assert len(heard) == 1
    assert "hunter2" not in heard.text
    assert "is not used" in heard.text


def test_user_variable_has_precedence_and_no_cache_means_no_probe(heard: Heard) -> None:
    mine = {"CCACHE_REMOTE_STORAGE": "redis://mine"}
    assert open_remote(CCACHE, "redis://127.0.0.1:1", mine) == mine
    assert open_remote(CompilerCache(), "redis://127.0.0.1:1", {}) == {}
    assert open_remote(CCACHE, "", {"A": "1"}) == {"A": "1"}
    assert heard == []


def sccache(folder: Path, start: str, location: str = "") -> CompilerCache:
    """Create a program that answers like sccache."""
    path = folder / "sccache"
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = --start-server ]; then {start}; fi\n'
        f"""echo '{{"cache_location": "{location}"}}'\n""",
        encoding="utf-8",
    )
    path.chmod(0o755)
    return CompilerCache("sccache", str(path), "0.16.0")


@pytest.mark.parametrize(
    ("start", "location", "why"),
    [
        ("echo 'sccache: error: Address in use' >&2; exit 2", "Local disk: /c", "--stop-server"),
        ("echo 'sccache: error: region is missing' >&2; exit 2", "s3", "region is missing"),
    ],
)
@posix_only
def test_sccache_server_that_ignores_remote_is_reported(
    heard: Heard, tmp_path: Path, start: str, location: str, why: str
) -> None:
    assert open_remote(sccache(tmp_path, start, location), "s3://bucket", {}) == {}
    assert why in heard.text


@posix_only
@pytest.mark.parametrize("origin", ["setting", "user"])
def test_only_sccache_server_gets_bucket_credentials(
    heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str
) -> None:
    url = "s3://bucket"
    monkeypatch.setenv("SCCACHE_REGION", "auto")
    if origin == "user":
        monkeypatch.setenv("SCCACHE_BUCKET", "bucket")
        url = ""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    program = sccache(tmp_path, f"env > {tmp_path / 'seen'}; exit 0")
    for _ in range(2):  # the second time from the cached result
        (tmp_path / "seen").unlink(missing_ok=True)
        assert open_remote(program, url, {"A": "1"}) == {"A": "1"}
        seen = (tmp_path / "seen").read_text(encoding="utf-8")
        store = {"SCCACHE_BUCKET=bucket", "SCCACHE_REGION=auto", "AWS_SECRET_ACCESS_KEY=hunter2"}
        assert {"A=1", *store} <= {*seen.split()}
    in_use = "echo 'error: Address in use' >&2; exit 2"
    monkeypatch.setattr(remote_cache_io, "_usable_by_url", {})
    open_remote(sccache(tmp_path, in_use, "s3, name: bucket"), url, {})
    assert heard == []


def test_remote_hits_count_as_hits_and_are_reported_separately(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "# a.cpp\ndirect_cache_hit\nlocal_storage_miss\nremote_storage_hit\n"
        "# b.cpp\npreprocessed_cache_hit\nlocal_storage_hit\n"
        "# c.cpp\ncache_miss\nremote_storage_miss\n"
        "# d.cpp\ncache_miss\nremote_storage_error\n",
        encoding="utf-8",
    )
    counts = read_log_counts(log)
    assert counts == CacheCounts(2, 2, 0, 1, 1)
    assert (
        counts.format_summary(CCACHE)
        == "ccache served 2 of 4 compilations, 1 of them from the shared cache"
    )
    assert counts.build_record(CCACHE)["shared"] == 1
    assert counts.build_record(CCACHE)["unreached"] == 1
    assert not {"shared", "unreached"} & CacheCounts(1, 0, 0).build_record(CCACHE).keys()


def test_remote_lost_during_build_is_reported_once_and_disabled(
    heard: Heard,
) -> None:
    lost = CacheCounts(0, 6, 0, 0, 2)
    with server(b"+PONG\r\n") as place:
        url = f"redis://{place}"
        assert open_remote(CCACHE, url, {})
        remote_cache_io.disable_failing_cache(CCACHE, url, CacheCounts(1, 0, 0, 1))
        assert heard == []
        for _ in range(2):
            remote_cache_io.disable_failing_cache(CCACHE, url, lost)
        assert open_remote(CCACHE, url, {}) == {}
    assert list(heard) == [
        (
            f"the remote compiler cache {url} failed: "
            "2 of 6 compilations were cached on this machine only. The build is not affected"
        )
    ]


def test_failing_remote_of_user_variables_is_disabled(heard: Heard) -> None:
    own = {"CCACHE_REMOTE_STORAGE": "redis://example.org"}
    assert open_remote(CCACHE, "", own) == own
    remote_cache_io.disable_failing_cache(CCACHE, "", CacheCounts(0, 6, 0, 0, 2))
    assert heard[-1].startswith("the remote compiler cache in your environment variables failed")
    assert open_remote(CCACHE, "", own) == {}


def lose_remote(env: Mapping[str, str], *_: object) -> None:
    """Compile one file without an answer from the shared cache, then fail."""
    log = Path(env["CCACHE_STATSLOG"])
    log.write_text("# a.cpp\ncache_miss\nremote_storage_error\n", encoding="utf-8")
    raise CommandFailedError("build failed", code=1)


@pytest.mark.parametrize("kind", ["compile", "extensions"])
def test_failed_build_keeps_cache_counts_and_drops_dead_remote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard, kind: str
) -> None:
    fail = fail_compile if kind == "compile" else fail_extension
    with server(b"+PONG\r\n") as place:
        url = f"redis://{place}"
        with pytest.raises(CommandFailedError):
            fail(tmp_path, monkeypatch, url)
    assert "ccache served 0 of 1 compilations" in heard
    assert heard[-1].startswith(f"the remote compiler cache {url} failed: 1 of 1 compilations")
    assert open_remote(CCACHE, url, {}) == {}
    (run,) = build_history_io.read_history(tmp_path / "runs")
    assert run["cache"] == {
        "kind": "ccache", "hits": 0, "misses": 1, "uncacheable": 0, "unreached": 1,
    }  # fmt: skip


def fail_compile(folder: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(compile_action, "_find_active_cache", lambda *_: CCACHE)
    monkeypatch.setattr(compile_action, "_configure_folder", lambda *_: None)
    monkeypatch.setattr(
        compile_action,
        "_compile_folder",
        lambda _bench, _job, _run, given, _: lose_remote(given[0].env),
    )
    layout = Layout(Project.of_checkout(folder), "p", folder / "wheelhouse")
    tree = SourceTree("", "git", "", {}, "", "")
    manifests.write_manifest(layout.compute_manifest_path("source"), tree)
    bench: Any = SimpleNamespace(folder=folder, environment=Environment({}, {}, (), ":"))
    job: Any = SimpleNamespace(
        layout=layout,
        build=folder,
        log=folder / "log",
        runs=folder / "runs",
        cache_remote=url,
        workers=DistributionSettings(),
    )
    compile_action._build_and_record(bench, job, CompileStatistics(FolderDecision("reuse", ())))


def fail_extension(folder: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    layout = Layout(Project.of_checkout(folder), "p", folder / "wheelhouse")
    settings = parse_settings({"extensions": [{"name": "toy", "path": str(folder)}]})
    job: ExtensionJob = plan_extension(
        settings.extensions[0], settings, layout, CHOICE, KNOWLEDGE
    ).job
    caching = CacheEnvironment(CCACHE, {}, {}, {})
    files.create_owned_folder(layout.build)
    manifests.write_manifest(layout.compute_manifest_path("cache-env"), caching)
    job = replace(job, runs=folder / "runs", cache_remote=url)
    Path(job.work).mkdir(parents=True)
    monkeypatch.setattr(extension_environment_io, "compute_job_count", lambda *_: 1)
    monkeypatch.setattr(
        extension_build_io, "_build_start_callback", lambda _job, _crew, command, _: command.env
    )
    monkeypatch.setattr(JobScheduler, "run_build", lambda _crew, env: lose_remote(env))
    deps: Any = SimpleNamespace(python="python", toolkit=None)
    extension_build_io._compile_extension(job, deps, Command(("pip",), {}, "build toy"), folder)


def test_failing_user_cache_is_not_reported(heard: Heard) -> None:
    remote_cache_io.disable_failing_cache(CCACHE, "", CacheCounts(0, 1, 0, 0, 1))
    assert heard == []


URL = "redis://:hunter2@127.0.0.1:6379"


def test_password_is_accepted_only_from_environment(yard: Path) -> None:
    write(yard, f"build: {{cache_remote: '{URL}'}}\n")
    with pytest.raises(SettingsError) as error:
        load_settings(Project.of_checkout(yard), "mine", {})
    assert "config/profiles/mine.yaml:1: build.cache_remote: this URL contains a password" in str(
        error.value
    )
    assert "hunter2" not in str(error.value)
    name = "TORCHYARD__BUILD__CACHE_REMOTE"
    loaded = load_settings(Project.of_checkout(yard), "mine", {name: URL})
    assert loaded.settings.build.cache_remote == URL


@pytest.mark.parametrize(
    "url",
    [
        "host:6379",
        "ftp://host/p",
        "redis://",
        "s3:///b",
        "redis://a b",
        "redis://h:x",
        "redis://h:1|a b",
    ],
)
def test_invalid_url_is_refused(yard: Path, url: str) -> None:
    with pytest.raises(SettingsError, match=r"build\.cache_remote"):
        load_settings(Project.of_checkout(yard), "mine", {"TORCHYARD__BUILD__CACHE_REMOTE": url})


@pytest.mark.parametrize("place", ["127.0.0.1:99999", ":hunter2@127.0.0.1:0", "[::1]:65536"])
def test_invalid_port_is_refused_at_load(yard: Path, place: str) -> None:
    name = "TORCHYARD__BUILD__CACHE_REMOTE"
    with pytest.raises(SettingsError, match=r"build\.cache_remote: a port is a number") as error:
        load_settings(Project.of_checkout(yard), "mine", {name: f"redis://{place}"})
    assert str(error.value).startswith(f"{name}: ")
    assert "hunter2" not in str(error.value)
    assert load_settings(Project.of_checkout(yard), "mine", {name: "redis://h:65535|read-only"})


def test_remote_url_is_in_no_fingerprint_and_its_password_in_no_report(
    yard: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(yard, "torch: {strategy: source, version: 2.15.0}\nextensions: [{name: t, path: t}]\n")
    (yard / "t").mkdir()
    without = inputs(opened(yard))
    monkeypatch.setenv("TORCHYARD__BUILD__CACHE_REMOTE", URL)
    write(yard, "torch: {strategy: source, version: 2.15.0}\nextensions: [{name: t, path: t}]\n"
          "build: {cache_remote: 'redis://127.0.0.1:6379'}\n")  # fmt: skip
    subject = opened(yard)
    assert inputs(subject) == without
    assert subject.opened
    jobs = [stage.job for stage in subject.opened.plan.stages if stage.kind in _COMPILING]
    assert {job.cache_remote for job in jobs} == {"redis://127.0.0.1:6379"}
    settings_report.run(SelectedProfile(Project.of_checkout(yard), "mine", None))
    assert "redis://***@127.0.0.1:6379" in heard.text
    assert "hunter2" not in heard.text


_COMPILING = {"compile", "extensions"}


def inputs(subject: SelectedProfile) -> list[Any]:
    assert subject.opened
    return [stage.fingerprint for stage in subject.opened.plan.stages]


@pytest.mark.needs("ccache")
def test_ccache_features_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = cache_program_io.find_cache("ccache")
    assert found is not None
    assert "file-storage" in remote_cache_io._read_ccache_features(found).split()
