"""torchyard.lock as text: a section round-trips, and only the section of the profile is read."""

from __future__ import annotations

import pytest
from msgspec import structs

from tasks.core.errors import SettingsError
from tasks.lock.lock_file import (
    LockedInputs,
    LockSection,
    compare_sections,
    merge_kept_extensions,
    parse_section,
    replace_section,
)

DIGEST, OTHER = "a" * 64, "1" * 64
SECTION = LockSection(
    python="3.12",
    platform="linux x86_64",
    strategy="prebuilt",
    release="2.15.0",
    torch=LockedInputs(wheel="torch-2.15.0-cp312-cp312-manylinux_2_28_x86_64.whl", sha256=DIGEST),
    extensions={
        "toy": LockedInputs(git="https://git.example/a", ref="main", commit="1" * 40),
        "mine": LockedInputs(path="mine", packages={"pluggy==1.0": (DIGEST, OTHER)}),
    },
    packages={"numpy==2.3.5": (OTHER,), "pip==25.3": (DIGEST,)},
)


def test_section_round_trips_unchanged() -> None:
    text = replace_section("", "mine", SECTION)
    assert parse_section(text, "mine") == SECTION
    assert replace_section(text, "mine", SECTION) == text
    assert f"\n    pluggy==1.0: [{DIGEST}, '{OTHER}']\n" in text.replace("        pl", "    pl")


def test_sections_are_sorted_and_other_profiles_kept_verbatim() -> None:
    text = replace_section("", "zebra", SECTION).replace("zebra:\n", "zebra:  # ours\n")
    both = replace_section(text, "ant", SECTION)
    assert both.index("ant:") < both.index("zebra:  # ours")
    assert replace_section(both, "ant", None) == text


def test_error_in_other_section_is_ignored() -> None:
    text = replace_section("", "mine", SECTION) + "\nother:\n  - {this is not a section\n"
    assert parse_section(text, "mine") == SECTION
    assert parse_section(text, "absent") is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("commit: '" + "1" * 40, "commit: 'main", "mine.extensions.toy.commit"),
        ("strategy: prebuilt", "strategy: prebuilt\n  more: 1", "mine.more: unknown key"),
        ("python: '3.12'", "python: 3.12", "mine.python"),
        ("python: '3.12'", "python: &a '3.12'\n  b: *a", "alias"),
        ("  release: 2.15.0\n", "", "mine.release: this key is missing"),
        ("  platform", "<<<<<<< HEAD\n  platform", "does not begin a section"),
    ],
)
def test_invalid_section_is_refused_with_line_number(old: str, new: str, expected: str) -> None:
    text = replace_section("", "mine", SECTION)
    assert old in text
    with pytest.raises(SettingsError, match=expected) as found:
        parse_section(text.replace(old, new), "mine")
    assert found.value.location.startswith("torchyard.lock:")
    assert found.value.location.rpartition(":")[2].isdigit()


def test_differences_list_versions_commits_and_digests() -> None:
    extensions = {
        "toy": LockedInputs(git="https://git.example/a", ref="main", commit="2" * 40),
        "new": LockedInputs(path="new"),
    }
    packages = {"numpy==2.4.0": (OTHER,), "pip==25.3": (OTHER,)}
    now = structs.replace(SECTION, extensions=extensions, packages=packages)
    assert list(compare_sections(SECTION, SECTION)) == []
    assert list(compare_sections(SECTION, now)) == [
        "extensions.mine: locked, but not built",
        "extensions.new: built, but not locked",
        "extensions.toy.commit: 111111111111 → 222222222222",
        "packages.numpy: 2.3.5 → 2.4.0",
        "packages.pip: 25.3 has another sha256 than the locked one",
    ]


def test_lock_of_skipped_extension_is_kept() -> None:
    now = structs.replace(SECTION, extensions={"mine": LockedInputs(path="elsewhere")})
    kept = merge_kept_extensions(now, SECTION, {"toy"})
    assert kept.extensions == {
        "toy": SECTION.extensions["toy"],
        "mine": LockedInputs(path="elsewhere"),
    }
    assert (
        merge_kept_extensions(now, SECTION, set())
        == merge_kept_extensions(now, None, {"toy"})
        == now
    )
