"""A full, read-only or missing disk for doit's database does not fail a run."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from doit.cmd_base import ModuleTaskLoader
from doit.dependency import JSONCodec, SqliteDB
from doit.doit_cmd import DoitMain

from tasks.cli.running import database
from tasks.cli.running.database import Database, set_aside_damaged_database
from tasks.cli.session import open_session
from tasks.core.errors import TorchyardError
from tasks.core.project import Project
from tests.support.checkout import write
from tests.support.plugins import PLUGINS
from tests.unit.cli.running.test_graph import Bench

FULL = (
    "pragma page_size = 512; vacuum; pragma max_page_count = 1"  # limit the pages to those in use
)
READ_ONLY = "pragma query_only = 1"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def opening(monkeypatch: pytest.MonkeyPatch, pragma: str) -> None:
    """Replace what the next opening of doit's database finds."""
    connect = database.connect

    def opened(name: str) -> sqlite3.Connection:
        connection = connect(name)
        connection.executescript(pragma)
        return connection

    monkeypatch.setattr(database, "connect", opened)


@pytest.mark.parametrize("pragma", [FULL, READ_ONLY])
def test_failure_is_reported_if_database_cannot_be_saved(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, pragma: str
) -> None:
    def fail() -> str:
        raise TorchyardError("nvcc is not there", location="deps.log")

    opening(monkeypatch, pragma)
    assert bench.doit() == 0  # its output exists, only the state was not saved
    bench.inputs, bench.acts["deps"] = {"flag": "x" * 9999}, fail
    assert bench.doit() == 1
    out = bench.out.getvalue()
    assert "nvcc is not there" in out
    assert "Stopped" in out
    assert "Traceback" not in out


@pytest.mark.parametrize("pragma", [FULL, READ_ONLY])
def test_save_error_is_reported_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, pragma: str
) -> None:
    opening(monkeypatch, pragma)
    bench.inputs = {"flag": "x" * 9999}
    assert bench.doit() == 0
    assert bench.out.getvalue().count("cannot save the state of the tasks") == 1


def test_database_that_cannot_be_opened_is_only_a_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "db"
    path.mkdir()
    known = Database(str(path), JSONCodec())
    known.set("deps", "result:", "1")
    known.dump()
    assert f"warning: cannot open {path}: unable to open" in capfd.readouterr().err


def test_database_of_a_missing_folder_is_written_if_a_build_creates_it(tmp_path: Path) -> None:
    path = tmp_path / ".torchyard" / "db"
    for exists in (False, True):
        known = Database(str(path), JSONCodec())
        known.set("deps", "result:", "1")
        if exists:
            path.parent.mkdir()
        known.dump()
        assert path.parent.exists() is exists
    assert Database(str(path), JSONCodec()).get("deps", "result:") == "1"


def test_reports_work_if_database_cannot_be_opened(
    yard: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    write(yard, "target: {gpus: ['12.0']}\n")
    (yard / ".doit.db.mine").mkdir()
    opened = open_session(Project.of_checkout(yard), "mine", {}, ["settings"])
    tasks = {"DOIT_CONFIG": opened.doit_config, "task_all": opened.tasks}
    assert DoitMain(ModuleTaskLoader(tasks), extra_config=PLUGINS).run(["settings"]) == 0
    output = capfd.readouterr()
    assert "target.gpus" in output.out
    assert "cannot open" in output.err
    assert "Traceback" not in output.err


@pytest.mark.parametrize(
    ("error", "damaged"),
    [
        (sqlite3.OperationalError("unable to open database file"), False),
        (sqlite3.OperationalError("disk I/O error"), False),
        (sqlite3.OperationalError("attempt to write a readonly database"), False),
        (sqlite3.OperationalError("database is locked"), False),
        (sqlite3.OperationalError("database disk image is malformed"), True),
        (sqlite3.DatabaseError("file is not a database"), True),
    ],
)
def test_only_a_damaged_database_is_moved_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: sqlite3.Error, damaged: bool
) -> None:
    path = tmp_path / "db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table doit (task_id text)")

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(sqlite3, "connect", fail)
    set_aside_damaged_database(path)
    assert path.exists() is not damaged


def test_damaged_database_that_cannot_be_moved_does_not_fail_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "db"
    path.write_bytes(b"none" * 999)
    monkeypatch.setattr(Path, "replace", fail)
    set_aside_damaged_database(path)
    assert path.exists()


@pytest.mark.parametrize("data", ["{half", "[1]", "\\x00"])
def test_database_damaged_after_opening_reads_as_empty(
    bench: Bench, tmp_path: Path, data: str
) -> None:
    assert bench.doit() == 0
    with closing(sqlite3.connect(tmp_path / "db")) as opened:
        opened.execute("update doit set task_data = ?", (data,))
        opened.commit()
    assert bench.doit() == 0
    assert "Traceback" not in bench.out.getvalue()


def test_database_with_other_table_reads_as_empty_and_is_discarded(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "db")) as opened:
        opened.execute("create table doit (x)")
        opened.commit()
    known = Database(str(tmp_path / "db"), JSONCodec())
    known._connection.execute("drop table doit")
    assert known.get("wheel", "deps:") is None
    assert not known.in_("deps")
    known.remove_all()
    known.set("wheel", "result:", "1")
    known.dump()


def test_database_is_compatible_with_doits_sqlite_backend(tmp_path: Path) -> None:
    name = str(tmp_path / "db")
    written = {"_values_:": {"flag": ["A", 1]}, "deps:": ["/a", "/b"], "/a": [1.5, 2, "0"]}
    for writer, reader in ((SqliteDB, Database), (Database, SqliteDB)):
        for task in ("deps", "wheel"):
            first = writer(name, JSONCodec())
            for key, value in written.items():
                first.set(task, key, value)
            first.dump()
        second = reader(name, JSONCodec())
        assert second.in_("deps")
        assert {key: second.get("wheel", key) for key in written} == written
        second.remove("deps")
        second.dump()
        third = writer(name, JSONCodec())
        assert not third.in_("deps")
        third.remove_all()
        third.dump()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "good": lambda data: data,
    "no database": lambda _: b"none" * 999,
    "a page of zeros": lambda data: data[:4096] + bytes(4096) + data[8192:],
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("command", ["forget", "forget --all", "forget deps", "clean"])
def test_forget_and_clean_succeed_and_next_build_is_correct(
    bench: Bench, tmp_path: Path, how: str, command: str
) -> None:
    assert bench.doit() == 0
    database = tmp_path / "db"
    database.write_bytes(DAMAGE[how](database.read_bytes()))
    assert bench.doit(*command.split()) == 0  # doit ends a traceback with another code
    assert database.with_name("db.damaged").exists() is (how != "good")
    bench.inputs, bench.acts["deps"] = {"flag": "B"}, lambda: "moved"
    assert bench.doit() == 0
    assert bench.ran == ["deps", "wheel"]
    assert '"moved"' in bench.text("deps")
    assert bench.doit() == 0
    assert bench.ran == []
