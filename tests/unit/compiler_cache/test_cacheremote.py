"""The compiler cache that machines share: as each program wants it, and when it is of no use."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.cli.commands import settings as settings_report
from tasks.compiler_cache import cache_program_io, remote_cache_io
from tasks.compiler_cache.cache_program_io import CacheCounts, read_log_counts
from tasks.compiler_cache.distributed_compilation_io import CompileDistribution
from tasks.core.deps_model import CompilerCache
from tasks.core.errors import CommandFailedError, SettingsError
from tasks.core.model import Command, Layout
from tasks.jobs.job_scheduler_io import JobScheduler
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.runlog import build_history_io
from tasks.settings.cache_urls import (
    build_cache_variables,
    explain_unsupported_url,
    parse_cache_account,
    parse_cache_address,
)
from tasks.settings.layers_io import load_settings
from tasks.settings.schema import parse_settings
from tasks.stages.compile import run as compile_action
from tasks.stages.compile.build_folder_decision import FolderDecision
from tasks.stages.compile.run import CompileStatistics
from tasks.stages.env.model import CacheEnvironment
from tasks.stages.extensions import extension_build_io
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.extensions.plan import plan_extension
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
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a run that has asked nobody yet, with a ccache that was built with all it can be."""
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
def test_a_url_becomes_each_programs_own_variables(
    kind: str, version: str, url: str, expected: dict[str, str]
) -> None:
    assert build_cache_variables(kind, version, url) == expected


def test_one_word_before_the_host_is_a_password_to_redis_and_a_user_to_others() -> None:
    assert (
        parse_cache_account("redis://pw@h").user,
        parse_cache_account("redis://pw@h").password,
    ) == ("", "pw")
    assert (
        parse_cache_account("http://me@h").user,
        parse_cache_account("http://me@h").password,
    ) == ("me", "")


def test_a_url_that_this_ccache_would_fail_each_compilation_with_is_not_given_to_it() -> None:
    assert not explain_unsupported_url("ccache", "file-storage redis-storage", "redis://h")
    assert "knows no redis" in explain_unsupported_url("ccache", "file-storage", "redis://h")
    assert "knows no s3" in explain_unsupported_url(
        "ccache", "file-storage redis-storage http-storage", "s3://b"
    )
    assert not explain_unsupported_url("sccache", "", "s3://b")
    assert "is for ccache" in explain_unsupported_url("sccache", "", "redis://h|read-only")


def test_attributes_are_no_part_of_the_place() -> None:
    assert parse_cache_address("redis://:pw@h:6380|read-only") == ("h", 6380)
    assert parse_cache_address("redis://h|read-only") == ("h", 6379)
    assert parse_cache_address("redis://[::1]:7") == ("::1", 7)


@contextmanager
def server(*answers: bytes) -> Iterator[str]:
    """Somebody who says this to whatever comes, and nothing where there is no answer."""
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


def joined(cache: CompilerCache, url: str, env: dict[str, str]) -> dict[str, str]:
    """The environment of a block; no file is written for what holds no password."""
    with remote_cache_io.open_remote_environment(cache, url, env, PurePath("nowhere")) as given:
        return given


def test_one_that_answers_is_used_and_asked_once(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_cache_io, "_CONNECT_TIMEOUT", 60.0)
    with server(b"+PONG\r\n") as place:
        for _ in range(2):
            given = joined(CCACHE, f"redis://{place}", {"A": "1"})
            assert given == {"A": "1", "CCACHE_REMOTE_STORAGE": f"redis://{place}{TIMES}"}
    assert heard == []


def ccache(folder: Path) -> CompilerCache:
    """A program that tells the configuration of its user as ccache does."""
    path = folder / "ccache"
    text = "(/etc/ccache.conf) max_size = 5.0G\n(default) umask =\n(environment) stats = true\n"
    path.write_text(f"#!/bin/sh\ncat <<'EOF'\n{text}EOF\n", encoding="utf-8")
    path.chmod(0o755)
    return CompilerCache("ccache", str(path), "4.9")


@posix_only
@pytest.mark.parametrize("whose", ["setting", "own"])
def test_a_password_of_ccache_is_in_a_file_that_is_gone_afterwards(
    whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_cache_io, "_find_obstacle", lambda *_: "")
    url = "redis://:hunter$2@cache"
    if whose == "own":
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
def test_one_that_refuses_or_says_nothing_is_one_warning_and_a_local_build(
    heard: Heard, monkeypatch: pytest.MonkeyPatch, answer: bytes, why: str
) -> None:
    monkeypatch.setattr(remote_cache_io, "_CONNECT_TIMEOUT", 60.0 if answer else 0.6)
    with server(answer) as place:
        for _ in range(3):
            env = joined(CCACHE, f"redis://{place}", {"A": "1"})
            assert env == {"A": "1"}
    assert list(heard) == [
        f"redis://{place} is not used, compilations are cached only locally: {why}"
    ]


@pytest.mark.parametrize("scheme", ["redis", "rediss", "http", "https"])
@pytest.mark.parametrize("cache", [CCACHE, SCCACHE], ids=lambda cache: cache.kind)
def test_nobody_there_is_a_warning_and_names_no_password(
    heard: Heard, cache: CompilerCache, scheme: str
) -> None:
    with kept_port() as nobody:
        url = f"{scheme}://me:hunter2@127.0.0.1:{nobody}/p"
        assert joined(cache, url, {}) == {}
    assert len(heard) == 1
    assert "hunter2" not in heard.text
    assert "is not used" in heard.text


def test_a_persons_own_goes_first_and_without_a_cache_nobody_is_asked(heard: Heard) -> None:
    mine = {"CCACHE_REMOTE_STORAGE": "redis://mine"}
    assert joined(CCACHE, "redis://127.0.0.1:1", mine) == mine
    assert joined(CompilerCache(), "redis://127.0.0.1:1", {}) == {}
    assert joined(CCACHE, "", {"A": "1"}) == {"A": "1"}
    assert heard == []


def sccache(folder: Path, start: str, location: str = "") -> CompilerCache:
    """A program that answers as sccache does."""
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
def test_a_server_of_sccache_that_does_not_use_it_is_told(
    heard: Heard, tmp_path: Path, start: str, location: str, why: str
) -> None:
    assert joined(sccache(tmp_path, start, location), "s3://bucket", {}) == {}
    assert why in heard.text


@posix_only
@pytest.mark.parametrize("whose", ["setting", "own"])
def test_the_server_of_sccache_alone_gets_what_opens_a_bucket(
    heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    url = "s3://bucket"
    monkeypatch.setenv("SCCACHE_REGION", "auto")
    if whose == "own":
        monkeypatch.setenv("SCCACHE_BUCKET", "bucket")
        url = ""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    program = sccache(tmp_path, f"env > {tmp_path / 'seen'}; exit 0")
    for _ in range(2):  # also where it is known already
        (tmp_path / "seen").unlink(missing_ok=True)
        assert joined(program, url, {"A": "1"}) == {"A": "1"}
        seen = (tmp_path / "seen").read_text(encoding="utf-8")
        store = {"SCCACHE_BUCKET=bucket", "SCCACHE_REGION=auto", "AWS_SECRET_ACCESS_KEY=hunter2"}
        assert {"A=1", *store} <= {*seen.split()}
    in_use = "echo 'error: Address in use' >&2; exit 2"
    monkeypatch.setattr(remote_cache_io, "_usable_by_url", {})
    joined(sccache(tmp_path, in_use, "s3, name: bucket"), url, {})
    assert heard == []


def test_hits_of_the_shared_cache_are_hits_and_told_apart(tmp_path: Path) -> None:
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


def test_one_that_was_lost_in_the_midst_is_told_once_and_left_alone_from_then_on(
    heard: Heard,
) -> None:
    lost = CacheCounts(0, 6, 0, 0, 2)
    with server(b"+PONG\r\n") as place:
        url = f"redis://{place}"
        assert joined(CCACHE, url, {})
        remote_cache_io.disable_failing_cache(CCACHE, url, CacheCounts(1, 0, 0, 1))
        assert heard == []
        for _ in range(2):
            remote_cache_io.disable_failing_cache(CCACHE, url, lost)
        assert joined(CCACHE, url, {}) == {}
    assert list(heard) == [
        f"{url} failed during the build: 2 of 6 compilations are cached only locally"
    ]


def test_one_that_the_users_variables_name_is_left_alone_as_well(heard: Heard) -> None:
    own = {"CCACHE_REMOTE_STORAGE": "redis://example.org"}
    assert joined(CCACHE, "", own) == own
    remote_cache_io.disable_failing_cache(CCACHE, "", CacheCounts(0, 6, 0, 0, 2))
    assert heard[-1].startswith("the shared cache of your environment variables failed")
    assert joined(CCACHE, "", own) == {}


def lose_remote(env: Mapping[str, str], *_: object) -> None:
    """Compile one file without an answer from the shared cache, then fail."""
    log = Path(env["CCACHE_STATSLOG"])
    log.write_text("# a.cpp\ncache_miss\nremote_storage_error\n", encoding="utf-8")
    raise CommandFailedError("build failed", code=1)


@pytest.mark.parametrize("kind", ["compile", "extensions"])
def test_a_failed_build_keeps_its_cache_counts_and_drops_a_remote_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard, kind: str
) -> None:
    fail = fail_compile if kind == "compile" else fail_extension
    with server(b"+PONG\r\n") as place:
        url = f"redis://{place}"
        with pytest.raises(CommandFailedError):
            fail(tmp_path, monkeypatch, url)
    assert "ccache served 0 of 1 compilations" in heard
    assert heard[-1].startswith(f"{url} failed during the build: 1 of 1 compilations")
    assert joined(CCACHE, url, {}) == {}
    (run,) = build_history_io.read_history(tmp_path / "runs")
    assert run["cache"] == {
        "kind": "ccache", "hits": 0, "misses": 1, "uncacheable": 0, "unreached": 1,
    }  # fmt: skip


def fail_compile(folder: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(compile_action, "_compute_environment", lambda *_: {})
    monkeypatch.setattr(compile_action, "_find_active_cache", lambda *_: CCACHE)
    monkeypatch.setattr(
        compile_action, "_start_distribution", lambda *_: nullcontext(CompileDistribution({}))
    )
    monkeypatch.setattr(compile_action, "_configure_folder", lambda *_: None)
    monkeypatch.setattr(
        compile_action,
        "_compile_folder",
        lambda _bench, _job, _run, given, _: lose_remote(given[0].env),
    )
    bench: Any = SimpleNamespace(folder=folder)
    job: Any = SimpleNamespace(
        build=folder, log=folder / "log", runs=folder / "runs", cache_remote=url
    )
    compile_action._build_and_record(bench, job, CompileStatistics(FolderDecision("reuse", ())))


def fail_extension(folder: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    layout = Layout(folder, "p", folder / "wheelhouse")
    asked = parse_settings({"extensions": [{"name": "toy", "path": str(folder)}]})
    job: ExtensionJob = plan_extension(asked.extensions[0], asked, layout, CHOICE, KNOWLEDGE).job
    caching = CacheEnvironment(CCACHE, {}, {}, {})
    manifests.write_manifest(folder / "caching.json", caching)
    files.create_owned_folder(layout.build)
    job = replace(job, caching=folder / "caching.json", runs=folder / "runs", cache_remote=url)
    Path(job.work).mkdir(parents=True)
    monkeypatch.setattr(extension_build_io, "compute_job_count", lambda *_: 1)
    monkeypatch.setattr(
        extension_build_io, "_build_start_callback", lambda _job, _crew, command, _: command.env
    )
    monkeypatch.setattr(JobScheduler, "run_build", lambda _crew, env: lose_remote(env))
    deps: Any = SimpleNamespace(python="python", toolkit=None)
    extension_build_io._compile_extension(job, deps, Command(("pip",), {}, "build toy"), folder)


def test_a_cache_of_a_persons_own_that_fails_is_theirs(heard: Heard) -> None:
    remote_cache_io.disable_failing_cache(CCACHE, "", CacheCounts(0, 1, 0, 0, 1))
    assert heard == []


URL = "redis://:hunter2@127.0.0.1:6379"


def test_a_password_is_taken_from_the_environment_alone(yard: Path) -> None:
    write(yard, f"build: {{cache_remote: '{URL}'}}\n")
    with pytest.raises(SettingsError) as told:
        load_settings(yard / "config", "mine", {})
    assert "config/profiles/mine.yaml:1: build.cache_remote: this URL has a password" in str(
        told.value
    )
    assert "hunter2" not in str(told.value)
    name = "TORCHYARD__BUILD__CACHE_REMOTE"
    assert load_settings(yard / "config", "mine", {name: URL}).settings.build.cache_remote == URL


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
def test_what_is_no_such_url_is_refused(yard: Path, url: str) -> None:
    with pytest.raises(SettingsError, match=r"build\.cache_remote"):
        load_settings(yard / "config", "mine", {"TORCHYARD__BUILD__CACHE_REMOTE": url})


@pytest.mark.parametrize("place", ["127.0.0.1:99999", ":hunter2@127.0.0.1:0", "[::1]:65536"])
def test_a_port_that_no_machine_has_is_told_at_load(yard: Path, place: str) -> None:
    name = "TORCHYARD__BUILD__CACHE_REMOTE"
    with pytest.raises(SettingsError, match=r"build\.cache_remote: a port is a number") as told:
        load_settings(yard / "config", "mine", {name: f"redis://{place}"})
    assert str(told.value).startswith(f"{name}: ")
    assert "hunter2" not in str(told.value)
    assert load_settings(yard / "config", "mine", {name: "redis://h:65535|read-only"})


def test_it_is_in_no_input_of_a_stage_and_in_no_report(
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
    settings_report.run(SelectedProfile(yard, "mine", None))
    assert "redis://***@127.0.0.1:6379" in heard.text
    assert "hunter2" not in heard.text


_COMPILING = {"compile", "extensions"}


def inputs(subject: SelectedProfile) -> list[Any]:
    assert subject.opened
    return [stage.fingerprint for stage in subject.opened.plan.stages]


@pytest.mark.needs("ccache")
def test_ccache_says_which_servers_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = cache_program_io.find_cache("ccache")
    assert found is not None
    assert "file-storage" in remote_cache_io._read_ccache_features(found).split()
