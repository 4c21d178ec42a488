"""Every fact has evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tasks.knowledge.knowledge_files_io import load_knowledge
from tests.support.rows import each_row

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "config" / "knowledge"
KNOWLEDGE = load_knowledge(FOLDER)
FILES = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))
# Lists and tables in which every entry is a separate fact
ENTRIES = {
    "gpus": ("names", "jetson_modules", "too_old", "traps", "contradictions_settled", "notes"),
    "toolkits": (
        "never_shipped",
        "first_toolkit",
        "last_toolkit",
        "binary_rules",
        "recommendations",
        "suffixes",
        "notes",
    ),
    "pytorch": (
        "release_candidates",
        "platforms",
        "releases",
        "fewer_pythons",
        "constraints",
        "extension_never",
        "arch_list_differences",
        "arch_list_parsing",
        "building",
    ),
    "combinations": ("known_bad", "minimums"),
    "extensions": ("extensions", "notes"),
    "buildfolder": ("rules",),
    "costs": ("ways",),
    "failures": ("failures",),
    "mirrors": ("presets",),
    "packagemanagers": ("managers",),
}


def parsed(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return content


@each_row("name", FILES)
def test_every_entry_has_evidence(name: str) -> None:
    data = parsed(name)
    for key in ENTRIES.get(name, ()):
        rows = data[key].values() if isinstance(data[key], dict) else data[key]
        assert rows
        for row in rows:
            assert row["status"].strip(), (name, key, row)


@each_row("name", FILES)
def test_every_other_table_has_evidence(name: str) -> None:
    rest = {
        k: v
        for k, v in parsed(name).items()
        if k not in ENTRIES.get(name, ()) and isinstance(v, dict) and k != "releases"
    }
    for key, value in rest.items():
        assert value.get("status") or any(
            "status" in part for part in value.values() if isinstance(part, dict)
        ), (name, key)


def test_nested_facts_have_evidence() -> None:
    wheels = [wheel for row in parsed("pytorch")["releases"].values() for wheel in row["wheels"]]
    toolkits = parsed("toolkits")["releases"].values()
    assert all(wheel["status"] for wheel in wheels)
    assert all(row["driver"]["status"] for row in toolkits)
    assert all(fact["status"] for fact in parsed("toolkits")["pypi"]["facts"])


def test_every_value_that_was_read_has_a_file() -> None:
    evidence = parsed("read/evidence")
    for row in parsed("read/pytorch")["releases"].values():
        patches = {row["patch"]: row["companions"], **row["companions"].pop("patches", {})}
        named = {f"{patch} companions.{name}" for patch, pins in patches.items() for name in pins}
        named |= {f"{row['patch']} {key}" for key in row if key != "companions"}
        assert named == {
            f"{patch} {value}"
            for patch in patches
            for entry in evidence["pytorch"][patch]
            for value in entry["values"]
        }
    for cuda, row in parsed("read/toolkits")["releases"].items():
        values = [value for entry in evidence["toolkits"][cuda] for value in entry["values"]]
        assert {*values, "status"} == set(row)


def everywhere(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value below `value` with its dotted key."""
    yield at, value
    if isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from everywhere(part, f"{at}.{key}")


STATED = [
    (f"{name}{key}", value)
    for name in FILES
    for key, value in everywhere(parsed(name), "")
    if key.rpartition(".")[2].endswith("status")
]


def test_every_status_is_unverified_or_says_how_it_was_verified() -> None:
    assert len(STATED) > 600
    wrong = [key for key, text in STATED if not re.match(r"verified: \S|unverified\b", text)]
    assert not wrong


@each_row("name", FILES)
def test_no_evidence_refers_to_a_missing_file(name: str) -> None:
    ours = re.compile(r"(?<![\w/.-])(?:tasks|config|docs|templates|tests)/[\w./-]*\w")
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    assert [path for path in ours.findall(text) if not (ROOT / path).exists()] == []


def test_no_version_is_written_as_a_number() -> None:
    for name in FILES:
        numbers = [key for key, value in everywhere(parsed(name)) if isinstance(value, float)]
        assert not numbers, "a version without quotes: 2.10 would be read as 2.1"
