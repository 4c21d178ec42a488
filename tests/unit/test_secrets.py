"""Credentials of an index or repository are never shown or stored in readable files."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.cli.commands import doctor, explain
from tasks.cli.commands import settings as settings_report
from tasks.core.errors import FetchError, TorchyardError, redact_secrets
from tasks.core.model import Command, Plan
from tasks.doctor.host_facts import HostFacts, ProbeRequest, RequiredUrl
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.runlog import build_history_io, stage_record_io
from tasks.system import shell
from tasks.system.console import Console
from tasks.system.network import download, network_access
from tasks.wheels import wheelhouse_io
from tests.support.checkout import Heard, opened, write
from tests.support.rows import each_row
from tests.support.surroundings import LINUX

INDEXES = [
    "https://index.example/simple?token=hunter2",
    "https://index.example/simple?a=1&X-Amz-Signature=hunter2&b=2",
    "https://me:hunter2@index.example/simple",
]
PROFILE = """\
target: {{gpus: ["12.0"]}}
torch: {{strategy: {strategy}, index: "{index}"}}
source: {{git: "{index}"}}
extensions: [{{name: toy, git: "{index}", ref: main}}]
"""


@each_row(
    "query",
    [
        *("token", "access_token", "private-token", "authToken", "X-Amz-Security-Token"),
        *("key", "api_key", "apikey", "access-key", "AWSAccessKeyId", "x-functions-key"),
        *("password", "passwd", "pwd", "pass", "client_secret", "secret", "auth", "jwt"),
        *("sig", "Signature", "X-Amz-Signature", "X-Goog-Signature", "X-Amz-Credential"),
    ],
)
@each_row("before", ["?", "?a=1&", "?a=1&amp;", "#"])
def test_secret_url_parameter_is_redacted(query: str, before: str) -> None:
    text = f"https://host.example/simple{before}{query}=hun%20ter+2/=&last=1"
    assert redact_secrets(text) == f"https://host.example/simple{before}{query}=***&last=1"


@pytest.mark.parametrize("value", ["true", "false"])
def test_switch_is_no_secret(value: str) -> None:
    assert redact_secrets(f"persist-credentials: {value}") == f"persist-credentials: {value}"
    assert redact_secrets(f'"use_token={value}"') == f'"use_token={value}"'
    for secret in (f"{value}-1", f"{value}1", f"{value}.1"):
        assert redact_secrets(f"password: {secret}") == "password: ***"
        assert redact_secrets(f"password={secret}") == "password=***"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://h/?token=x: no answer", "https://h/?token=***: no answer"),
        ("see (https://h/?token=x).", "see (https://h/?token=***)."),
        ('{"index": "https://h/?token=x", "n": 1}', '{"index": "https://h/?token=***", "n": 1}'),
        ("curl 'https://h/?token=x' -o y", "curl 'https://h/?token=***' -o y"),
        ("https://me:a?b@h/?token=x", "https://***@h/?token=***"),
    ],
)
def test_text_around_a_secret_is_kept(text: str, shown: str) -> None:
    assert redact_secrets(text) == shown


@each_row(
    "text",
    [
        "https://h/simple?keyword=torch&monkey=1&signed=no&page=2#sha256=0a1b",
        "token=1 key=2 --max-tokens=4096",
        "a.cpp:3:9: error: expected primary-expression before ')' token",
        "   12 |   auto next_token = lexer.next(); // token: the last one",
        "config/local.yaml: build.env.HF_TOKEN: it is written to files and logs",
        "fatal: could not read Password for 'https://h': terminal prompts disabled",
        '{"password": null, "tokens": 3, "secrets": ["a"]}',
        "tokenizer=fast; the bearer of news; sha256_hf_ok",
        "https://h/?token=&page=2",
        "Building CUDA object a&b.cu.o",
    ],
)
def test_text_without_secrets_is_kept(text: str) -> None:
    assert redact_secrets(text) == text


@each_row(
    ("text", "shown"),
    [
        ("Authorization: Bearer zzzsecretzzz", "Authorization: Bearer ***"),
        ("authorization: basic YTpi.", "authorization: basic ***."),
        ("-H 'Authorization: token abc' -o y", "-H 'Authorization: token ***' -o y"),
        ("curl: bearer eyJhbGci.e30.c2ln", "curl: bearer ***"),
        ("PRIVATE-TOKEN: glpat-abcdefgh12", "PRIVATE-TOKEN: ***"),
        ("HF_TOKEN=hunter2 doit build", "HF_TOKEN=*** doit build"),
        ("export PGPASSWORD='hunter 2'", "export PGPASSWORD='*** 2'"),
        ("aws_secret_access_key = wJalr/K7MDENG+b", "aws_secret_access_key = ***"),
        ("password: x", "password: ***"),
        ("password: hunter2 was refused", "password: *** was refused"),
        ("MY_API_KEY=abc, and on", "MY_API_KEY=***, and on"),
        ("with hf_abcdefghijkl, ghp_0123456789ab", "with ***, ***"),
        ("github_pat_11AAAAAA0_bcd pypi-AgEIcHlwaS5 AKIAIOSFODNN7EXAMPLE", "*** *** ***"),
        ("xoxb-1234567890", "***"),
    ],
)
def test_secret_outside_a_url_is_redacted(text: str, shown: str) -> None:
    assert redact_secrets(text) == shown
    assert redact_secrets(shown) == shown
    assert redact_secrets(f"a\n{text}\nb") == f"a\n{shown}\nb"


@pytest.mark.parametrize(
    "value",
    [
        {"HDR": "Authorization: Bearer zzzsecretzzz", "n": 1},
        {"text": 'say "password: zzzsecretzzz"', "next": 'HF_TOKEN="zzzsecretzzz"'},
        {"password": "zzzsecretzzz and more", "next": ["TOKEN=zzzsecretzzz", "b"]},
        {"text": '{"client_secret": "zzzsecretzzz"}', "path": "C:\\x"},
        {"Authorization": "Bearer zzzsecretzzz"},
        {"text": "first\nhf_zzzsecretzzz\nbearer zzzsecretzzz"},
    ],
)
def test_redacted_document_stays_valid(value: dict[str, Any]) -> None:
    one, many = (
        json.loads(redact_secrets(json.dumps(value, indent=indent))) for indent in (None, 2)
    )
    assert one == many, "stages are compared by it"
    assert one.keys() == value.keys()
    assert "secretz" not in json.dumps(one)


@pytest.fixture(params=INDEXES)
def index(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["prebuilt", "source"])
def subject(
    request: pytest.FixtureRequest, yard: Path, index: str, monkeypatch: pytest.MonkeyPatch
) -> SelectedProfile:
    def look(asked: ProbeRequest, _: object) -> HostFacts:
        away = tuple(
            RequiredUrl(url.subject, redact_secrets(url.url), answers=False) for url in asked.urls
        )
        return replace(LINUX, host=asked.host, root=asked.project.root, reach=away)

    monkeypatch.setattr(doctor, "read_host_facts", look)
    write(yard, PROFILE.format(strategy=request.param, index=index))
    return opened(yard)


def plan_of(subject: SelectedProfile) -> Plan:
    assert subject.opened
    return subject.opened.plan


def test_no_report_shows_the_secret(subject: SelectedProfile, heard: Heard, tmp_path: Path) -> None:
    out = str(tmp_path / "out.json")
    settings_report.run(subject, json=out)
    shown = Path(out).read_text(encoding="utf-8")
    explain.run(subject, json=out)
    shown += Path(out).read_text(encoding="utf-8")
    with pytest.raises(TorchyardError) as error:
        doctor.run(subject, json=out)
    shown += Path(out).read_text(encoding="utf-8") + str(error.value) + heard.text
    assert "index.example" in shown
    assert "hunter2" not in shown


def test_build_headline_does_not_show_the_secret(subject: SelectedProfile, index: str) -> None:
    out = io.StringIO()
    console = Console(plan_of(subject), out, notices=lambda: [f"{index} is slow"])
    console.print_header()
    console.report_failure("wheel", f"Traceback\nValueError: {index}")
    console.print_line(index)
    assert out.getvalue().count("index.example") >= 3
    assert "hunter2" not in out.getvalue()


def test_manifests_and_run_records_do_not_store_the_secret(
    subject: SelectedProfile, index: str, tmp_path: Path
) -> None:
    for stage in plan_of(subject).stages:
        stage_record_io.write_stage_record(stage, index, 1.0, "0.1.0")
    build_history_io.append_run(tmp_path / "runs.jsonl", 1.0, (), asked=index)
    kept = [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.json*")]
    assert any("index.example" in text for text in kept)
    assert not [text for text in kept if "hunter2" in text]


def test_log_redacts_secrets_in_command_and_output(
    index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_access, "RETRY_PAUSES", ())
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    nobody = index.replace("https", "http").replace("index.example", "127.0.0.1:9")
    log = tmp_path / "log"
    code = "import sys; print('looking in', sys.argv[1])"
    shell.run_command(
        Command((sys.executable, "-c", code, index), shell.build_host_env(), "ask", log=log)
    )
    with pytest.raises(FetchError) as error:
        download.download_file(nobody, tmp_path / "a", None, log)
    shown = log.read_text(encoding="utf-8") + str(error.value)
    assert "looking in https://" in shown
    assert "hunter2" not in shown


def test_wheel_origin_does_not_store_the_secret(index: str, tmp_path: Path) -> None:
    wheel = tmp_path / "a-1-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    place, _ = wheelhouse_io.store_wheel(wheel, tmp_path / "house", "a", index)
    assert "hunter2" not in Path(wheelhouse_io.resolve_origin_path(place)).read_text(
        encoding="utf-8"
    )
    assert wheelhouse_io.find_stored_wheel(tmp_path / "house", "a", index), (
        "the same question finds it again"
    )
