"""`doit report`: its three files, from records like those of a build."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tasks.cli.commands import report
from tasks.core.errors import TorchyardError
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.runlog.run_record import ALWAYS_CHECKED
from tasks.system.hardware import operating_system
from tests.support import runrecords
from tests.support.checkout import ROOT

ODD = "</script><script>alert(1)</script>&\u2028<!--'\"`.cpp.o"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
FETCHED = {"src", "href", "srcset", "action", "data", "poster", "background", "xlink:href"}


class Reader(HTMLParser):
    """Check that tags are balanced; collect links and the text of each kind of tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in {"meta", "link", "br", "wbr", "line", "path", "circle"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a checkout with the templates of this one."""
    (tmp_path / "templates").mkdir()
    for path in (ROOT / "templates").glob("report*"):
        for file in [path] if path.is_file() else path.iterdir():
            copy = tmp_path / "templates" / file.relative_to(ROOT / "templates")
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(file.read_bytes())
    return tmp_path


def record(root: Path, *made: dict[str, Any], **told: Any) -> None:
    written = runrecords.events(list(made) or runrecords.edges(40), **told)
    runrecords.written(root / "build" / "trial" / "records" / "runs", written)


def report_of(root: Path, **params: str) -> tuple[str, Any, str]:
    """Return the page, the trace and the text."""
    report.run(SelectedProfile(Project.of_checkout(root), "trial", None), **params)
    folder = Path(params.get("out", root / "build" / "trial" / "report"))
    page, trace, text = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("report.html", "trace.json", "report.md")
    )
    return page, json.loads(trace), text


def drawn(page: str) -> Any:
    [text] = [one for one in Reader(page).texts["script"] if one.startswith("{")]
    return json.loads(text)


def test_page_is_complete_and_fetches_nothing(root: Path) -> None:
    record(root, failed=True)
    page = Reader(report_of(root)[0])
    fetched = [value for _, name, value in page.attributes if name in FETCHED]
    assert fetched == ["data:,"]
    assert ("meta", "content", POLICY) in page.attributes
    styles = "".join(page.texts["style"])
    assert "url(" not in styles
    assert "@import" not in styles


def test_page_lists_all_build_outputs(root: Path) -> None:
    record(root)
    data = drawn(report_of(root)[0])
    assert len(data["edges"]) == 40
    assert data["stages"][0][0] == "compile"
    assert data["samples"]


def test_unusual_names_are_escaped(root: Path) -> None:
    record(root, {"output": f"a/{ODD}", "began": 1.0, "ended": 2.0})
    page, trace, _ = report_of(root)
    data = drawn(page)
    [edge] = data["edges"]
    assert data["folders"][edge[0]] + edge[1] == f"a/{ODD}"
    assert page.count("<script") == 2
    assert any(one["name"] == ODD.rsplit("/", 1)[1] for one in trace["traceEvents"])


def test_trace_has_the_fields_perfetto_requires(root: Path) -> None:
    record(root)
    trace = report_of(root)[1]
    events = trace["traceEvents"]
    assert {one["ph"] for one in events} == {"X", "C", "M", "i"}
    for one in events:
        assert {"name", "ph", "pid", "tid"} <= one.keys()
        assert one["ph"] == "M" or isinstance(one["ts"], int)
        assert one["ph"] != "X" or (one["dur"] >= 0 and "args" in one)
    slices = [one for one in events if one["ph"] == "X" and one["pid"] == 2]
    assert len(slices) == 40
    for slot in {one["tid"] for one in slices}:
        mine = sorted((one["ts"], one["dur"]) for one in slices if one["tid"] == slot)
        ends = [at + lasting for at, lasting in mine]
        assert all(end <= begin + 1 for end, (begin, _) in zip(ends[:-1], mine[1:], strict=True))


def test_failure_is_reported_with_cause_and_hint(root: Path) -> None:
    record(root, failed=True)
    page, _, text = report_of(root)
    for told in (page.replace("&#39;", "'"), text):
        assert "compile failed" in told
        assert "Unsupported gpu architecture 'compute_120'" in told
        assert "nvcc-arch-unsupported" in told
        assert "set toolkit.version to 12.8 or later" in told
        assert "not reached" in told


def test_auto_fix_is_shown_next_to_the_failure(root: Path) -> None:
    told = list(runrecords.events(runrecords.edges(2)))
    [done] = [one for one in told if one["event"] == "done" and one["stage"] == "compile"]
    done["auto_fix"] = "build.jobs: 2"
    runrecords.written(root / "build" / "trial" / "records" / "runs", iter(told))
    page, _, text = report_of(root)
    for shown in (page, text):
        assert "901f49d; auto-fix: build.jobs: 2" in shown


def test_build_without_gpu_is_reported_as_cpu_build(root: Path) -> None:
    record(root, decided={"strategy": "source", "targets": []})
    page, _, text = report_of(root)
    assert "- targets: `CPU`" in text
    assert "<dd>CPU</dd>" in page


def test_hint_is_shown_once(root: Path) -> None:
    told = list(runrecords.events(runrecords.edges(2), failed=True))
    [done] = [one for one in told if one["event"] == "done" and one["outcome"] == "failed"]
    done["error"] = {"what": "ninja stopped", "todo": done["diagnosis"]["remedy"]}
    runrecords.written(root / "build" / "trial" / "records" / "runs", iter(told))
    assert report_of(root)[2].count("set toolkit.version to 12.8 or later") == 1


def test_report_lists_contents_of_build_directory(root: Path) -> None:
    record(root)
    manifests: dict[str, Any] = {
        "source": {"kind": "git", "commit": "2f81284b0e8e", "edits": "ab", "patches": ["cd"]},
        "wheel": {
            "version": "2.15.0",
            "artifact": {"name": "t.whl", "sha256": "ef" * 32, "size": 9},
        },
        "extensions/smoke": {"name": "smoke", "status": "built", "archs": {"_C.so": ["12.0"]}},
        "extensions/smoke.record": {"stage": "extensions:smoke"},
        "validate": {
            "torch": "2.14.0",
            "checks": [{"name": "matmul", "status": "not run", "detail": "no GPU"}],
        },
    }
    for name, document in manifests.items():
        path = root / "build" / "trial" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(document), encoding="utf-8")
    page, _, text = report_of(root)
    for told in ("commit 2f81284b0e8e, with edits (dirty), 1 patch", "2.15.0", "12.0"):
        assert told in page
        assert told in text
    for told in ("ef" * 32, "no GPU", "The validation checked another torch version"):
        assert told in page


def test_outputs_of_the_run_take_precedence_over_current_files(root: Path) -> None:
    told = list(runrecords.events(runrecords.edges(2)))
    made = {"version": "2.6.0+mine", "artifact": {"name": "mine.whl"}}
    done = {"event": "done", "at": 1, "outcome": "changed", "seconds": 1}
    told.insert(1, {**done, "stage": "wheel", "outputs": made})
    told.insert(1, {**done, "stage": "extensions:a", "outputs": {"name": "a", "archs": {}}})
    runrecords.written(root / "build" / "trial" / "records" / "runs", iter(told))
    (root / "build" / "trial" / "wheel.json").write_text('{"version": "2.7.0"}', encoding="utf-8")
    page = report_of(root)[0]
    assert "2.6.0+mine" in page
    assert "2.7.0" not in page
    assert "<h3>a" in page


@pytest.mark.parametrize("text", ["{", "[]", '{"checks": 3, "artifact": [], "source": 1}'])
def test_invalid_manifest_does_not_fail_the_report(root: Path, text: str) -> None:
    record(root)
    for name in ("source", "deps", "wheel", "validate", "extensions/a"):
        path = root / "build" / "trial" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert "Built in" in report_of(root)[0]


def test_user_names_home_directories_and_secrets_are_removed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operating_system, "list_home_folders", lambda: ("/mnt/alice",))
    monkeypatch.setattr(operating_system, "list_user_names", lambda: ("alice",))
    monkeypatch.setattr(operating_system, "list_host_names", lambda: ("wonderland",))
    asked = {"torch.index": "https://alice:secret@wonderland/simple", "python": f"{root}/x"}
    record(
        root,
        {"output": "/mnt/alice/ext/a.cpp.o", "began": 1.0, "ended": 2.0},
        asked=asked,
    )
    report_of(root)
    for path in (root / "build" / "trial" / "report").iterdir():
        text = path.read_text(encoding="utf-8")
        for secret in ("alice", "wonderland", "secret", str(root), json.dumps(str(root))[1:-1]):
            assert secret not in text, path.name
        assert "~/ext/" in text or path.suffix == ".md"


LOOKS = (
    {"event": "stage", "at": 0.2, "stage": "source", "reason": ALWAYS_CHECKED},
    {"event": "done", "at": 0.9, "stage": "source", "outcome": "unchanged", "seconds": 0.7},
)


@pytest.mark.parametrize("stages", [(), LOOKS], ids=["nothing", "a look"])
def test_last_run_with_work_is_compared_with_previous_one(
    root: Path, capsys: pytest.CaptureFixture[str], stages: tuple[dict[str, Any], ...]
) -> None:
    for day in (20, 21):
        record(root, when=f"2026-11-{day}T00:00:00+00:00")
    begin = {**runrecords.BEGIN, "when": "2026-11-22T00:00:00+00:00"}
    idle = [begin, *stages, {"event": "end", "at": 1, "outcome": "done"}]
    runrecords.written(root / "build" / "trial" / "records" / "runs", iter(idle))
    page = report_of(root)[0]
    assert "run 20261121T000000Z-123, compared with 20261120T000000Z-123" in capsys.readouterr().out
    assert "40 outputs are in both" in page
    assert "a later run may have changed them" not in page
    report_of(root, run="20261122T000000Z-123")
    assert "Up to date in 1.0 s" in capsys.readouterr().out


def test_both_runs_to_compare_can_be_named(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in (20, 21, 22):
        record(root, when=f"2026-11-{day}T00:00:00+00:00")
    names = {"run": "20261121T000000Z-123.jsonl", "against": "20261122T000000Z-123"}
    page = report_of(root, **names, out=str(tmp_path / "elsewhere"))[0]
    said = capsys.readouterr().out
    assert "run 20261121T000000Z-123, compared with 20261122T000000Z-123" in said
    assert str(tmp_path / "elsewhere" / "report.html") in said
    assert "a later run may have changed them" in page


@pytest.mark.parametrize("param", ["run", "against"])
def test_unknown_run_is_refused_with_known_ones(root: Path, param: str) -> None:
    record(root)
    with pytest.raises(TorchyardError, match='there is no run "x"') as error:
        report.run(SelectedProfile(Project.of_checkout(root), "trial", None), **{param: "x"})
    assert "20261122T034027Z-123" in error.value.hint


def test_report_without_record_shows_command_to_run(root: Path) -> None:
    with pytest.raises(TorchyardError, match="no run of this profile is recorded") as error:
        report.run(SelectedProfile(Project.of_checkout(root), "trial", None))
    assert error.value.hint == "record one: doit build"


def test_truncated_record_still_makes_a_report(root: Path) -> None:
    told = runrecords.events(runrecords.edges(3, seconds=1.0), failed=True)
    whole = "\n".join(json.dumps(one) for one in told)
    first = whole.index("\n")
    path = root / "build" / "trial" / "records" / "runs" / "20261122T034027Z-123.jsonl"
    path.parent.mkdir(parents=True)
    for end in range(first, len(whole), (len(whole) - first) // 20):
        path.write_text(whole[:end], encoding="utf-8")
        Reader(report_of(root)[0])
