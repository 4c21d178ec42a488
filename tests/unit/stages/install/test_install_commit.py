"""Two installs after each other as one: what the way back leads to. Values alone."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.stages.install.install_commit_io import compute_commit
from tasks.stages.install.install_journal_io import (
    BackupFile,
    DistributionChange,
    InstalledFile,
    InstallRecord,
)

SITE = "lib/site"


def part(before: str, after: str) -> DistributionChange:
    """RECORD's digest is told by the version."""
    return DistributionChange(before, f"r{before}" if before else "", after, f"r{after}", "")


def put(told: str) -> InstalledFile:
    owner, digest = told.split(":")
    return InstalledFile(owner, digest, 1, 1)


def exchange(
    when: str,
    parts: Mapping[str, DistributionChange],
    kept: Mapping[str, str],
    placed: Mapping[str, str],
) -> InstallRecord:
    """Files by name → owner:content."""
    return InstallRecord(
        python="/env/bin/python",
        prefix="/env",
        sites=(SITE,),
        when=when,
        parts=parts,
        kept={f"{SITE}/{path}": BackupFile(*told.split(":")) for path, told in kept.items()},
        placed={f"{SITE}/{path}": put(told) for path, told in placed.items()},
        folders={},
    )


def names(paths: Mapping[str, object] | tuple[str, ...]) -> set[str]:
    return {path.removeprefix(f"{SITE}/") for path in paths}


FIRST = exchange(
    "1",
    {"torch": part("A", "B"), "needed": part("", "2")},
    {"t.py": "torch:A", "a.py": "torch:A"},
    {"t.py": "torch:B", "b.py": "torch:B", "n.py": "needed:2"},
)


def test_the_first_install_keeps_all_of_it() -> None:
    found = compute_commit(None, FIRST)
    assert found.result == FIRST
    assert names(found.originals) == {"t.py", "a.py"}


def test_what_was_ours_is_forgotten() -> None:
    second = exchange(
        "2",
        {"torch": part("B", "C")},
        {"t.py": "torch:B", "b.py": "torch:B", "__pycache__/t.cpython-312.pyc": "torch:x"},
        {"t.py": "torch:C", "c.py": "torch:C"},
    )
    found = compute_commit(FIRST, second)
    assert found.result.kept == FIRST.kept
    assert names(found.result.placed) == {"t.py", "c.py", "n.py"}
    assert (found.result.parts["torch"].before, found.result.parts["torch"].after) == ("A", "C")
    assert found.result.parts["needed"] == FIRST.parts["needed"]
    assert found.result.when == "1"
    assert (found.originals, found.edited, found.superseded) == ((), (), ())


def test_what_a_person_edited_in_ours_goes_aside() -> None:
    kept = {"t.py": "torch:mine", "a.py": "torch:mine"}  # a.py is a new one where A had one
    second = exchange("2", {"torch": part("B", "C")}, kept, {"t.py": "torch:C", "a.py": "torch:C"})
    found = compute_commit(FIRST, second)
    assert names(found.edited) == {"t.py", "a.py"}
    assert found.result.kept == FIRST.kept


def test_a_file_of_a_persons_that_is_in_the_way_only_now_comes_back_too() -> None:
    second = exchange(
        "2", {"torch": part("B", "C")}, {"own.py": "torch:own"}, {"own.py": "torch:C"}
    )
    found = compute_commit(FIRST, second)
    assert names(found.originals) == {"own.py"}
    assert names(found.result.kept) == {"t.py", "a.py", "own.py"}


def test_what_a_persons_pip_put_in_the_place_of_ours_is_theirs() -> None:
    pips = {"t.py": "torch:P", "p.py": "torch:P"}
    second = exchange("2", {"torch": part("P", "C")}, pips, {"t.py": "torch:C"})
    found = compute_commit(FIRST, second)
    assert names(found.superseded) == {"t.py", "a.py"}
    assert names(found.originals) == {"t.py", "p.py"}
    assert found.result.kept == second.kept
    assert found.result.parts["torch"].before == "P"


def test_after_a_person_uninstalled_ours_the_first_is_still_what_comes_back() -> None:
    second = exchange("2", {"torch": part("", "C")}, {}, {"t.py": "torch:C"})
    found = compute_commit(FIRST, second)
    assert found.result.parts["torch"].before == "A"
    assert found.result.kept == FIRST.kept


def test_another_package_that_is_replaced_later_is_kept_beside() -> None:
    second = exchange("2", {"knn": part("1", "2")}, {"k.py": "knn:1"}, {"k.py": "knn:2"})
    found = compute_commit(FIRST, second)
    assert names(found.originals) == {"k.py"}
    assert names(found.result.kept) == {"t.py", "a.py", "k.py"}
    assert names(found.result.placed) == {"t.py", "b.py", "n.py", "k.py"}
    assert set(found.result.parts) == {"torch", "needed", "knn"}
