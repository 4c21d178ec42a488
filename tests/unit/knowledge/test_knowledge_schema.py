"""config/knowledge matches its schema, and errors in facts are reported clearly."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tasks.core.errors import KnowledgeError
from tasks.knowledge.knowledge_files_io import KNOWLEDGE_FOLDER, check_schema, load_knowledge


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the facts for a test to break."""
    shutil.copytree(KNOWLEDGE_FOLDER, tmp_path, dirs_exist_ok=True)
    return tmp_path


def spoil(folder: Path, name: str, right: str, wrong: str) -> None:
    path = folder / f"{name}.yaml"
    text = path.read_text(encoding="utf-8")
    assert right in text
    path.write_text(text.replace(right, wrong, 1), encoding="utf-8")


def test_every_file_matches_its_schema() -> None:
    assert [str(problem) for problem in check_schema(KNOWLEDGE_FOLDER)] == []


CARD = '"NVIDIA GB10": {cc: "12.1", machine: aarch64, status: "verified: D+P"}'


def test_unknown_key_is_named(folder: Path) -> None:
    spoil(folder, "gpus", CARD, '"NVIDIA GB10": {cc: "12.1", cs: "12.1", status: "verified: P"}')
    (problem,) = check_schema(folder)
    assert (problem.file, problem.path) == ("gpus.yaml", "names.NVIDIA GB10")
    assert "'cs' was unexpected" in problem.message


def test_missing_key_is_named(folder: Path) -> None:
    spoil(folder, "toolkits", "    dropped: []\n", "")
    (problem,) = check_schema(folder)
    assert str(problem) == "toolkits.yaml: releases.11.8: 'dropped' is a required property"


def test_file_without_schema_is_named(folder: Path) -> None:
    (folder / "planets.yaml").write_text("{}", encoding="utf-8")
    (folder / "read/moons.yaml").write_text("{}", encoding="utf-8")
    assert [str(one) for one in check_schema(folder)] == [
        "planets.yaml: schema.json has no $defs.planets",
        "read/moons.yaml: schema.json has no $defs.read_moons",
    ]


@pytest.mark.parametrize(
    ("name", "right", "wrong", "at"),
    [
        ("gpus", CARD, '"NVIDIA GB10": {cc: "12.1", status: "yes"}', "names.NVIDIA GB10.status"),
        ("gpus", CARD, '"NVIDIA GB10": {cc: 12.1, status: "unverified"}', "names.NVIDIA GB10.cc"),
        ("read/toolkits", "gcc_max: 11", 'gcc_max: "11"', "releases.11.8.gcc_max"),
        ("read/pytorch", "cxx_std: 17", 'cxx_std: "17"', "releases.2.0.cxx_std"),
        ("read/evidence", 'sha256: "', 'sha256: "x', "pytorch.2.0.0.0.sha256"),
        ("pytorch", "backend: setup_py", "backend: setup.py", "releases.2.0.backend"),
        ("pytorch", "system: linux", "system: Linux", "releases.2.0.wheels.0.system"),
        ("combinations", 'msvc: ">=1940"', "msvc: 1940", "known_bad.1.when.msvc"),
        ("extensions", "warnings: []", 'warnings: ["careful"]', "extensions.diff-gaussian-"),
        ("buildfolder", "effect: wipe", "effect: weep", "rules.0.effect"),
        ("costs", "build: [620, 620]", "build: 6 GB", "ways.0.room_mib.build"),
        ("failures", "phase: run", "phase: walk", "failures.0.phase"),
        ("mirrors", "https://mirrors.aliyun", "http://mirrors.aliyun", "presets.aliyun.instead"),
    ],
)
def test_value_of_wrong_type_is_named(
    folder: Path, name: str, right: str, wrong: str, at: str
) -> None:
    spoil(folder, name, right, wrong)
    (problem,) = check_schema(folder)
    assert problem.file == f"{name}.yaml"
    assert problem.path.startswith(at)


KINDS = {
    "gpus": "gpus",
    "toolkits": "toolkits",
    "pytorch": "releases",
    "combinations": "known_bad",
    "extensions": "extensions",
    "buildfolder": "folder_rules",
    "costs": "costs",
    "failures": "failures",
    "mirrors": "mirrors",
}


@pytest.mark.parametrize(
    ("name", "right", "wrong", "at", "what"),
    [
        ("gpus", 'cc: "12.1", ', "", "names.NVIDIA GB10.cc", "is missing"),
        ("gpus", 'cc: "12.1"', 'cc: "twelve"', "names.NVIDIA GB10.cc", "not a compute capability"),
        ("gpus", 'cc: "12.1"', "cc: 12.1", "names.NVIDIA GB10.cc", "wrong type"),
        ("gpus", CARD, '"NVIDIA GB10": "12.1"', "names.NVIDIA GB10", "wrong type"),
        ("gpus", "\nnames:", "\nnmaes:", "names", "is missing"),
        ("read/toolkits", "gcc_max: 11", 'gcc_max: "11"', "releases.11.8.gcc_max", "whole number"),
        ("read/toolkits", "pypi: false", 'pypi: "no"', "releases.11.8.pypi", "not true or false"),
        ("read/toolkits", "msvc: {min: 1910, ", "msvc: {", "releases.11.8.msvc.min", "is missing"),
        ("read/toolkits", 'sm: ["3.5"', "sm: [3.5", "releases.11.8.sm.1", "wrong type"),
        ("pytorch", "machine: x86_64, ", "", "releases.2.0.wheels.1.machine", "is missing"),
        (
            "read/pytorch",
            'msvc_min: "19.20"',
            "msvc_min: 19.20",
            "releases.2.14.msvc_min",
            "not text (quote it)",
        ),
        ("read/toolkits", "gcc_max: 11", "gcc_max: true", "releases.11.8.gcc_max", "whole number"),
        ("pytorch", "backend: setup_py", "backend: setup.py", "releases.2.0.backend", "'setup.py'"),
        ("read/pytorch", "pypi_pythons:", "pypi_:", "releases.2.0.python.first", "is missing"),
        ("combinations", "    level: error\n", "", "known_bad.msvc-lnk1161.level", "is missing"),
        ("extensions", '["simple_knn._C"]', "simple_knn", "extensions.simple-knn.imports", "list"),
        ("buildfolder", "    effect: wipe\n", "", "rules.1.effect", "is missing"),
        ("costs", "build: [620, 620], ", "", "ways.1.room_mib.build", "is missing"),
        ("failures", "    phase: run\n", "", "failures.gpu-arch-not-in-torch.phase", "is missing"),
        ("mirrors", '    who: "Nanjing University"\n', "", "presets.nju.who", "is missing"),
        (
            "failures",
            "'Error 804\\b'",
            "'Error (804'",
            "failures.cuda-804-driver.patterns.1",
            "regular",
        ),
    ],
)
def test_error_at_load_names_file_and_key(  # noqa: PLR0917  (a table)
    folder: Path, name: str, right: str, wrong: str, at: str, what: str
) -> None:
    spoil(folder, name, right, wrong)
    name = name.removeprefix("read/")  # its rows complete the curated ones
    with pytest.raises(KnowledgeError) as error:
        getattr(load_knowledge(folder), KINDS[name])
    assert error.value.location == f"{folder / name}.yaml: {at}"
    assert what in error.value.message
    assert "tasks.knowledge.knowledge_files_io" in error.value.hint
