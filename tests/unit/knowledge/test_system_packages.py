"""The package of a header, library, module or program is found in Debian's index files."""

from __future__ import annotations

import yaml

from tasks.knowledge.system_packages import SystemPackages
from tasks.knowledge.system_packages_refresh import build_package_document, render_package_document
from tests.support.checkout import KNOWLEDGE
from tests.support.rows import each_row

_USER = """\
Package: user{0}
Binary: user{0}
Build-Depends: debhelper (>= 13), libtoy-dev |
 libother-dev <!nocheck>, libpart-dev, libwide-dev, toytool
Build-Depends-Arch: libold-dev
"""
USERS = "\n".join(map(_USER.format, range(10)))
SOURCES = f"""\
Package: toy
Binary: libtoy-dev, libtoy1
Build-Depends: libtoy-dev, librare-dev

{USERS}
"""
WIDE = "\n".join(f"usr/include/wide{number}.h  libdevel/libwide-dev" for number in range(41))
CONTENTS = f"""\
usr/include/toy.h                           libdevel/libtoy-dev
usr/include/x86_64-linux-gnu/toy/core.h     libdevel/libtoy-dev
usr/include/toy/utils.h                     libdevel/libtoy-dev
usr/include/toys/a.h                        libdevel/libtoy-dev
usr/include/toys/part/c.h                   libdevel/libpart-dev
usr/include/utils.h                         libdevel/libold-dev
usr/include/a/utils.h                       libdevel/liba-dev
usr/include/b/utils.h                       libdevel/libb-dev
usr/include/rare.h                          libdevel/librare-dev
usr/include/diagnostics.h                   libdevel/libtoy-dev
usr/include/c++/12/toy.h                    libdevel/libstdc++-12-dev
{WIDE}
usr/include/wide/one.h                      libdevel/libwide-dev
usr/lib/x86_64-linux-gnu/libtoy.so          libdevel/libtoy-dev,libdevel/liba-dev
usr/lib/x86_64-linux-gnu/pkgconfig/toy-2.pc libdevel/libtoy-dev
usr/bin/toytool                             devel/toytool
usr/share/doc/toytool/README                devel/toytool
"""
DOCUMENT = build_package_document(CONTENTS.splitlines(), SOURCES.splitlines())
PACKAGES = SystemPackages(yaml.safe_load(render_package_document(DOCUMENT)))


def test_document_has_names_that_only_one_package_has() -> None:
    assert DOCUMENT == {
        "headers": {
            "libpart-dev": "toys/part/",
            "libtoy-dev": "toy.h toy/ toys/a.h",
            "libwide-dev": "wide/",
        },
        "libraries": {"libtoy-dev": "toy"},
        "modules": {"libtoy-dev": "toy-2"},
        "programs": {"toytool": "toytool"},
    }
    assert PACKAGES.document == DOCUMENT


@each_row(
    ("table", "name", "managers", "step"),
    [
        ("headers", "toy/core.h", ("apt",), "install it: apt install libtoy-dev (Debian, Ubuntu)"),
        ("headers", "toys/part/new.h", (), "apt install libpart-dev"),
        ("headers", "toy.h", ("dnf", "conda"), "install it: dnf install '*/toy.h' (Fedora, RHEL)"),
        ("headers", "toy.h", ("brew", "conda", "pip"), "install it: brew search toy"),
        ("headers", "toy.h", ("conda", "pip"), 'install it: conda search -c conda-forge "*toy*"'),
        ("headers", "toy.h", ("pacman", "conda"), "then pacman -F toy.h names it"),
        ("development_packages", "toy-2", ("pacman", "conda"), "pacman -F toy-2.pc"),
        ("link_libraries", "toy", (), "dnf install '*/libtoy.so'"),
        ("development_packages", "toy-2", (), "dnf install 'pkgconfig(toy-2)'"),
        ("development_packages", "toy", (), "apt install libtoy-dev"),
        ("programs", "toytool", (), "apt install toytool"),
    ],
)
def test_step_installs_the_package(
    table: str, name: str, managers: tuple[str, ...], step: str
) -> None:
    explained = PACKAGES.explain_name(table, name, managers)
    assert explained
    assert step in explained[1][0]


@each_row(
    ("table", "name", "managers"),
    [
        ("headers", "utils.h", ()),
        ("headers", "rare.h", ()),
        ("headers", "diagnostics.h", ()),
        ("symbols", "toy", ()),
        ("programs", "toytool", ("conda", "pip")),
    ],
)
def test_unknown_name_has_no_package(table: str, name: str, managers: tuple[str, ...]) -> None:
    assert PACKAGES.explain_name(table, name, managers) is None


def test_known_libraries_are_in_the_file() -> None:
    packages = KNOWLEDGE.system_packages
    assert packages.find_package("headers", "git2.h") == "libgit2-dev"
    assert packages.find_package("headers", "graphviz/cgraph.h") == "libgraphviz-dev"
    assert packages.find_package("modules", "zlib") == "zlib1g-dev"
