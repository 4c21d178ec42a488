"""The install command for missing programs on any system."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace

import pytest
import yaml

from tasks.doctor import machine_checks
from tasks.doctor.host_facts import Tool
from tasks.knowledge.package_managers import find_install_command, format_install_hint
from tasks.system.hardware import operating_system
from tests.support.checkout import KNOWLEDGE, ROOT, OnSystem
from tests.support.rows import each_row
from tests.support.surroundings import LINUX

ALPINE, ARCH, SUSE = ("alpine",), ("manjaro", "arch"), ("opensuse-leap", "suse", "opensuse")


@each_row(
    ("systems", "requested", "message"),
    [
        (("debian",), "compiler", "sudo apt install build-essential"),
        (("debian-13", "debian"), "newest-gcc", "sudo apt install gcc-14 g++-14"),
        (("debian-12", "debian"), "newest-gcc", "install g++ 14 with your package manager"),
        (
            ("ubuntu-24.04", "ubuntu", "debian"),
            "python",
            "sudo apt install python3.12 python3.12-venv python3.12-dev",
        ),
        (("debian-12", "debian"), "python", "uv python install 3.12"),
        (("linuxmint-22", "linuxmint", "ubuntu", "debian"), "python", "uv python install 3.12"),
        (ARCH, "python", "uv python install 3.12"),
        (("linuxmint-22", "linuxmint", "ubuntu", "debian"), "git", "sudo apt install git"),
        (("rocky", "rhel", "centos", "fedora"), "compiler", "sudo dnf install gcc-c++"),
        (("fedora",), "python-headers", "sudo dnf install python3.12-devel"),
        (SUSE, "blas", "sudo zypper install openblas-devel"),
        (ARCH, "git", "sudo pacman -S git"),
        (ALPINE, "ccache", "sudo apk add ccache"),
        (("macos",), "python", "brew install python@3.12"),
        (("windows",), "git", "winget install Git.Git"),
        (("nixos",), "compiler", "install g++ with your package manager"),
        ((), "rsync", "install rsync with your package manager"),
        (ARCH, "newest-gcc", "install g++ 14 with your package manager"),
    ],
)
def test_install_command_uses_the_system_package_manager(
    systems: tuple[str, ...], requested: str, message: str
) -> None:
    assert format_install_hint(KNOWLEDGE, systems, requested, python="3.12", gcc="14") == message


def test_package_name_without_version_gives_no_command() -> None:
    assert not find_install_command(KNOWLEDGE, ("debian",), "newest-gcc")


def test_every_row_has_plain_names_and_systems_are_unique() -> None:
    facts = KNOWLEDGE.package_managers
    for one in facts.managers:
        assert one.packages.keys() <= facts.names.keys(), one.command
    systems = [name for one in facts.managers for name in one.systems]
    assert len(systems) == len(set(systems))


@pytest.mark.parametrize(
    ("message", "systems"),
    [
        ({"ID": "debian", "NAME": "x"}, ("debian",)),
        ({"ID": "debian", "VERSION_ID": "12"}, ("debian-12", "debian")),
        ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, ("rocky", "rhel", "centos", "fedora")),
    ],
)
def test_linux_distribution_comes_from_os_release(
    monkeypatch: pytest.MonkeyPatch, message: dict[str, str], systems: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: message)
    assert operating_system.list_system_names() == systems


def test_linux_without_os_release_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> dict[str, str]:
        raise OSError

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "freedesktop_os_release", missing)
    assert operating_system.list_system_names() == ()


def test_doctor_shows_install_command_only_if_known(on_system: OnSystem) -> None:
    def hint_on(*systems: str) -> str:
        there = replace(LINUX, git=Tool(), systems=systems)
        return next(
            one.todo
            for one in machine_checks.check_build_tools(there, None, KNOWLEDGE)
            if one.id == "git"
        )

    assert hint_on("fedora") == "  sudo dnf install git"
    assert hint_on("gentoo") == "install git with your package manager"
    on_system("gentoo")
    assert operating_system.format_install_command("git") == "install git with your package manager"


def test_only_remedies_of_the_table_name_a_package_manager() -> None:
    """A hard-coded command would be shown on every Linux distribution."""
    facts = yaml.safe_load((ROOT / "config/knowledge/packagemanagers.yaml").read_text("utf-8"))
    commands = [row["command"] for row in facts["managers"].values()]
    linux = [one.removeprefix("sudo ") for one in commands if one.startswith("sudo ")]
    result = {path.name: path.read_text("utf-8") for path in (ROOT / "tasks").rglob("*.py")}
    result["failures.yaml"] = "\n".join(text for one in KNOWLEDGE.failures for text in one.here)
    del result["package_managers.py"]  # the table itself
    del result["error_kinds.py"]  # the commands for logs of other machines, each with its systems
    found = {(name, one) for name, text in result.items() for one in linux if f"{one} " in text}
    assert found == set()
