"""Distributions in site-packages are found by their files, whatever installed them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.stages.install.target_environment_io import (
    find_distributions,
    list_distribution_files,
    list_site_infos,
)

SITE = "lib/site"


@pytest.mark.parametrize(
    ("entry", "name", "version"),
    [
        ("simple_knn-0.1.dist-info", "simple-knn", "0.1"),
        ("Simple.KNN-0.1.dist-info", "simple-knn", "0.1"),
        ("torch-2.6.0+cu130.sm120.g1a2b3c4.dist-info", "torch", "2.6.0+cu130.sm120.g1a2b3c4"),
        ("simple_knn-0.1-py3.12.egg-info", "simple-knn", "0.1"),
        ("simple_knn-0.1-py3.12-linux-x86_64.egg", "simple-knn", "0.1"),
        ("simple_knn.egg-info", "simple-knn", "?"),
        ("simple-knn.egg-link", "simple-knn", "?"),
    ],
)
def test_every_install_format_is_recognized(
    tmp_path: Path, entry: str, name: str, version: str
) -> None:
    (tmp_path / SITE / entry).mkdir(parents=True)
    assert [one for _, one in list_site_infos(tmp_path / SITE)] == [name]
    (found,) = find_distributions(tmp_path, [SITE], [name]).values()
    assert found.version == version
    assert found.unrecorded_infos == (tmp_path / SITE / entry,)


def test_distribution_files_are_those_of_record_plus_bytecode(tmp_path: Path) -> None:
    site = tmp_path / SITE
    named = ("a.py", "../../bin/run", "gone.py", "../../../outside", "/etc/hostname", "folder")
    for path in ("a.py", "__pycache__/a.cpython-312.pyc", "b.py", "../../bin/run", "folder/x"):
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).touch()
    (tmp_path.parent / "outside").touch()
    info = site / "demo-1.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in named), encoding="utf-8")
    (info / "added").touch()
    (found,) = find_distributions(tmp_path, [SITE], ["demo"]).values()
    assert set(list_distribution_files(tmp_path, found)) == {
        "bin/run",
        f"{SITE}/a.py",
        f"{SITE}/__pycache__/a.cpython-312.pyc",
        f"{SITE}/demo-1.dist-info/RECORD",
        f"{SITE}/demo-1.dist-info/added",
    }
