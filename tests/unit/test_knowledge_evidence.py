"""Every fact keeps its evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.knowledge import load

FOLDER = Path(__file__).parents[2] / "config" / "knowledge"
KNOWLEDGE = load(FOLDER)
FILES = ("gpus", "toolkits", "pytorch", "combinations", "extensions", "buildfolder")
# Lists and tables whose every entry is a fact of its own.
ENTRIES = {
    "gpus": ("names", "jetson_modules", "traps", "contradictions_settled", "notes"),
    "toolkits": (
        "releases",
        "never_shipped",
        "first_toolkit",
        "last_toolkit",
        "binary_rules",
        "recommendations",
        "suffixes",
        "notes",
    ),
    "pytorch": (
        "platforms",
        "releases",
        "constraints",
        "extension_archs",
        "extension_never",
        "arch_list_differences",
        "arch_list_parsing",
        "building",
    ),
    "combinations": ("known_bad", "minimums"),
    "extensions": ("extensions", "notes"),
    "buildfolder": ("rules",),
}


def parsed(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize("name", FILES)
def test_every_entry_keeps_its_evidence(name: str) -> None:
    data = parsed(name)
    for key in ENTRIES[name]:
        rows = data[key].values() if isinstance(data[key], dict) else data[key]
        assert rows
        for row in rows:
            assert row["status"].strip(), (name, key, row)


@pytest.mark.parametrize("name", FILES)
def test_every_table_that_is_not_a_list_of_entries_has_evidence_too(name: str) -> None:
    rest = {k: v for k, v in parsed(name).items() if k not in ENTRIES[name] and isinstance(v, dict)}
    for key, value in rest.items():
        assert value.get("status") or any(
            "status" in part for part in value.values() if isinstance(part, dict)
        ), (name, key)


def test_nested_facts_have_evidence() -> None:
    wheels = [wheel for row in parsed("pytorch")["releases"].values() for wheel in row["wheels"]]
    toolkits = parsed("toolkits")["releases"].values()
    assert all(wheel["status"] for wheel in wheels)
    assert all(row["pypi_status"] and row["driver"]["status"] for row in toolkits)
    assert all(fact["status"] for fact in parsed("toolkits")["pypi"]["facts"])


@pytest.mark.parametrize("name", FILES)
def test_a_status_says_whether_it_was_verified(name: str) -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "status" in value:
                assert value["status"].startswith(("verified", "unverified", "gathered")), value
            for part in value.values():
                walk(part)
        elif isinstance(value, list):
            for part in value:
                walk(part)

    walk(parsed(name))


def test_no_number_stands_where_a_version_is_meant() -> None:
    def walk(value: Any) -> None:
        assert not isinstance(value, float), "a version without quotes: 2.10 would be read as 2.1"
        for part in (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        ):
            walk(part)

    for name in FILES:
        walk(parsed(name))
