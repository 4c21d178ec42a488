"""What is seen of a build while it is at work."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tasks.core.build_activity import BuildActivity, SlowOutput
from tasks.core.ninja_progress import Progress
from tasks.diagnosis.log_io import LogTail
from tasks.jobs import progress_io
from tasks.jobs.progress_io import ProgressMonitor
from tasks.runlog import build_history_io
from tasks.system import output
from tasks.system.hardware import capacity
from tests.support.checkout import Heard
from tests.support.sleepers import wait_for


def test_a_file_is_read_on_from_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = LogTail(path)
    assert tail.read_new_lines() == []
    path.write_bytes(b"one\ntwo\nthr")
    assert tail.read_new_lines() == ["one", "two"]
    with path.open("ab") as file:
        file.write(b"ee\n\xff\n")
    assert tail.read_new_lines() == ["three", "\ufffd"]
    assert tail.read_new_lines() == []


def test_another_file_in_its_place_is_read_from_its_start(tmp_path: Path) -> None:
    path, other = tmp_path / "log", tmp_path / "other"
    path.write_bytes(b"one\n")
    tail = LogTail(path)
    tail.read_new_lines()
    other.write_bytes(b"another\nfile\n")
    other.replace(path)
    assert tail.read_new_lines() == ["another", "file"]
    path.write_bytes(b"cut\n")
    assert tail.read_new_lines() == ["cut"]


def test_what_is_made_is_known_as_ninja_writes_it_and_what_was_there_is_not_told(
    tmp_path: Path,
) -> None:
    log = tmp_path / ".ninja_log"
    log.write_text("# ninja log v6\n0\t9000\t1\told.o\ta\n0\t100\t1\tagain.o\tb\n", "ascii")
    growing = build_history_io.NinjaLogFollower(tmp_path, build_history_io.read_ninja_log(tmp_path))
    assert growing.read_new_entries() == {}
    with log.open("a") as file:
        file.write("0\t41000\t2\tagain.o\tb\n500\t2000\t2\tnew.o\tc\n600\t90")
    made = {name: one.seconds for name, one in growing.read_new_entries().items()}
    assert made == {"again.o": 41.0, "new.o": 1.5}
    with log.open("a") as file:
        file.write("0\t2\tlast.o\td\n")
    assert growing.read_new_entries().keys() == {"again.o", "new.o", "last.o"}


def test_memory_is_told_by_the_tightest_limit_also_where_nobody_counts_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        capacity, "measure_memory", lambda *_: capacity.MemoryReading(24_576, 14_541)
    )
    watch = ProgressMonitor(lambda: 0.5, lambda: {"d/a.cu.o": 31.0, "b.o": 1.0})
    assert watch.read_activity(None) == BuildActivity(
        used_mib=10_035, limit_mib=24_576, hit_rate=0.5, slowest=(SlowOutput("a.cu", 31.0),)
    )


class _Ticks(Heard):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[Progress | None] = []

    def show_progress(self, text: str, progress: Progress | None = None) -> None:
        self.append(text)
        self.told.append(progress)


@pytest.fixture
def ticks(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> _Ticks:
    monkeypatch.setattr(progress_io, "_REPORT_INTERVAL", 0.01)
    found = _Ticks()
    output.set_listener(found)
    return found


def test_what_is_at_work_is_told_while_ninja_is_silent(ticks: _Ticks) -> None:
    jobs = iter(range(1_000_000))
    with progress_io.report_build_progress(lambda: BuildActivity(jobs=next(jobs))) as take:
        wait_for(lambda: len(ticks) > 2)
        take("[1/3] Building CXX object a.cpp.o")
        wait_for(lambda: len(ticks) > 6)
    before, *_, after = ticks.told
    assert before
    assert (before.total, before.silent > 0) == (0, True), "before any step has ended"
    assert after
    assert (after.total, after.silent > 0) == (3, True)
    told = [progress.at_work.jobs or 0 for progress in ticks.told if progress]
    assert set(ticks) == {"compiling", "a.cpp"}
    assert told == sorted(told)
    assert len(set(told)) > 2
    assert not [thread for thread in threading.enumerate() if thread.name == "watch"]


def test_once_ninja_is_done_no_count_is_told_and_nobody_is_late(ticks: _Ticks) -> None:
    with progress_io.report_build_progress(BuildActivity) as take:
        take("[1/2] Building CXX object a.cpp.o")
        take("-- Install configuration")
        before = len(ticks) + 1  # one may be on its way
        wait_for(lambda: len(ticks) > 5 + before)
    assert set(ticks[before:]) == {"installing"}
    assert {(later.total, later.silent) for later in ticks.told[before:] if later} == {(0, 0.0)}


def test_an_interrupted_build_is_watched_no_longer(ticks: _Ticks) -> None:
    with pytest.raises(KeyboardInterrupt), progress_io.report_build_progress(BuildActivity):
        raise KeyboardInterrupt
    assert not [thread for thread in threading.enumerate() if thread.name == "watch"]
