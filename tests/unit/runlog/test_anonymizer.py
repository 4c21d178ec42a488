"""What is nobody else's business is not in a report."""

from __future__ import annotations

import pytest

from tasks.runlog.anonymizer import Anonymizer
from tasks.runlog.run_record import Edge, Run, StageRun
from tests.support.rows import each_row

ALICE = Anonymizer(
    root="/home/alice/torchyard",
    homes=("/home/alice", "/mnt/users/alice"),
    users=("alice", "jo"),
    hosts=("wonderland.example.org", "wonderland"),
)
WINDOWS = Anonymizer(root=r"D:\work\yard", homes=(r"C:\Users\Alice B",), users=("Alice B",))


@each_row(
    ("text", "clean"),
    [
        ("/home/alice/torchyard/build/p/logs/a.log", "build/p/logs/a.log"),
        ("in /home/alice/torchyard: nothing", "in .: nothing"),
        ("/home/alice/torchyard-2/a", "~/torchyard-2/a"),
        ("gcc -I/home/alice/include -c a.c", "gcc -I~/include -c a.c"),
        ("/mnt/users/alice/x", "~/x"),
        ("/mnt/data/alice/x", "/mnt/data/USER/x"),
        ("/home/bob/x and /root/y", "~/x and ~/y"),
        ("/Users/bob/x", "~/x"),
        ("/opt/root/x and /roots", "/opt/root/x and /roots"),
        ("alice@wonderland: Alice's file", "USER@HOST: USER's file"),
        ("http://wonderland.example.org:80/x", "http://HOST:80/x"),
        ("malice in wonderlands", "malice in wonderlands"),
        ("/data/jo/a.o jo@x jo.cpp", "/data/USER/a.o USER@x jo.cpp"),
        ("https://me:secret@index/simple?token=abc", "https://***@index/simple?token=***"),
        (r"C:\Users\bob\x", r"~\x"),
        (r"C:\Users\Bob Smith\x", r"~\x"),
        (r"C:\\Users\\Bob van Smith\\x", r"~\\x"),
        (r"cl C:\Users\bob\a.c -IC:\Users\bob -O2 D:\x", r"cl ~\a.c -I~ -O2 D:\x"),
        ("file:///C:/Users/Bob Smith/x", "file:///~/x"),
        (r"D:\data\home\carol\x", r"~\x"),
        ("/mnt/c/Users/Bob Smith/x", "~/x"),
        ("PATH=/c/Users/Bob Smith/bin:/usr/bin", "PATH=~/bin:/usr/bin"),
        ("/nfs/users/bob/x:/data/home/carol/y", "~/x:~/y"),
        ("gcc -I/data/home/carol/include src/home/kit/a.c", "gcc -I~/include src/home/kit/a.c"),
        ("/home/bob/src/home/kit/a.c", "~/src/home/kit/a.c"),
        ("https://docs.example.com/cuda/home/page", "https://docs.example.com/cuda/home/page"),
        ("by alice.smith@corp.com, bob+x@corp.co.uk.", "by MAIL, MAIL."),
        ("git@github.com:a/b checkout@v4.1 memcpy@@GLIBC_2.14 a==1@2.9.0",) * 2,
    ],
)
def test_homes_names_and_secrets_are_taken_out(text: str, clean: str) -> None:
    assert ALICE.clean_text(text) == clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (r"D:\work\yard\build\p\a.log", r"build\p\a.log"),
        ("d:/work/yard/build/p/a.log", "build/p/a.log"),
        (r'"D:\\work\\yard\\build"', '"build"'),
        (r"c:\users\alice b\AppData", r"~\AppData"),
    ],
)
def test_a_path_of_windows_is_known_however_it_is_written(text: str, clean: str) -> None:
    assert WINDOWS.clean_text(text) == clean


@pytest.mark.parametrize("name", ["root", "runner", "Build"])
def test_a_name_that_tells_nothing_stays(name: str) -> None:
    assert (
        Anonymizer(users=(name,), hosts=(name,)).clean_text(f"the {name} of it")
        == f"the {name} of it"
    )


@pytest.mark.parametrize("path", ["", "/", ".", "~"])
def test_a_folder_that_is_none_takes_nothing_out(path: str) -> None:
    assert Anonymizer(root=path, homes=(path,)).clean_text("a/b/c.o ok.") == "a/b/c.o ok."


def test_every_text_of_a_run_is_cleaned() -> None:
    made = Edge("/home/alice/x.o", 0, 1)
    stage = StageRun("compile", 0.0, error={"where": "/home/alice/log"}, edges=(made,))
    run = Run("", "", ("build",), "p", 1, settings={"/home/alice/a": ["alice"]}, stages=(stage,))
    found = ALICE.clean_value(run)
    assert "alice" not in repr(found)
    assert found.stages[0].edges[0] == Edge("~/x.o", 0, 1)
