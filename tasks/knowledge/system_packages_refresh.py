"""Read from the index files of Debian which package has each header, library and program."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from tasks.knowledge.system_packages import NameClass

CONTENTS_FILES = ("main/Contents-amd64.gz", "main/Contents-all.gz")
SOURCES_FILE = "main/source/Sources.xz"
_LEAST_USERS: Mapping[NameClass, int] = {  # source packages that need a package to be built
    "headers": 2,
    "libraries": 2,
    "modules": 2,
    "programs": 10,
}
_COMMON_NAME_USERS = 20  # of a package whose header has a common name, such as utils.h
_ANY_NAME_USERS = 100  # of a package whose header is not named after it
_COMMON = 3  # packages that have a file or folder of this name below a folder of their own
_PREFIX_LENGTH = 4  # letters in which a header and its package agree
_MAX_HEADERS = 40  # of a package whose folder is not its own
_INCLUDE = "usr/include/"
_MACHINE = "x86_64-linux-gnu/"
_LIBRARY = re.compile(r"usr/lib/(?:x86_64-linux-gnu/)?lib([^/]+)\.(?:so|a)$")
_MODULE = re.compile(r"usr/(?:lib|share)/(?:x86_64-linux-gnu/)?pkgconfig/([^/]+)\.pc$")
_PROGRAM = re.compile(r"usr/bin/([^/]+)$")
_NOT_LIBRARIES = re.compile(  # compilers, kernels, and libraries of other languages
    r"^(?:linux-|libc6-dev|golang-|librust-|libghc|g\+\+|gcc|clang|llvm-|libstdc|libobjc|libgcc|"
    r"lib(?:32|x32|64)|libclang|libllvm|gnat|gdc|libgnat|libgphobos|flang|ocaml)|-cross$"
)
_NEEDS = re.compile(r"(?:^|[,|]) *([a-z0-9][a-z0-9.+-]+)")
_Names = Mapping[str, Iterable[str]]


def build_package_document(
    contents: Iterable[str], sources: Iterable[str]
) -> dict[NameClass, dict[str, str]]:
    """Return the names that packages have: {"headers": {"libgit2-dev": "git2.h git2/"}}.

    `contents` are the lines of the Contents files, and `sources` those of the Sources file. Of
    packages with the same name, the one that most sources need has it. Headers are in a folder
    (git2/) if only one package has it.
    """
    users = _count_users(sources)
    found = _group_files(contents)
    chosen = {
        kind: _choose_headers(names, users)
        if kind == "headers"
        else _choose_owners(names, users, _LEAST_USERS[kind])
        for kind, names in found.items()
    }
    return {
        kind: {package: " ".join(sorted(names)) for package, names in sorted(rows.items())}
        for kind, rows in chosen.items()
    }


def _count_users(sources: Iterable[str]) -> Counter[str]:
    """Return how many sources need each package to be built. Its own source does not count."""
    users: Counter[str] = Counter()
    for is_blank, lines in groupby(sources, key=lambda line: not line.strip()):
        if not is_blank:
            fields = _parse_fields(lines)
            needed = {
                name
                for key in ("Build-Depends", "Build-Depends-Arch")
                for name in _NEEDS.findall(fields.get(key, ""))
            }
            users.update(needed.difference(re.findall(r"[^,\s]+", fields.get("Binary", ""))))
    return users


def _parse_fields(lines: Iterable[str]) -> dict[str, str]:
    """Return the fields of a paragraph; lines that begin with a blank continue a field."""
    fields: dict[str, str] = {}
    key = ""
    for line in lines:
        name, separator, text = line.partition(":")
        if line[0].isspace() or not separator:
            fields[key] = f"{fields.get(key, '')} {line.strip()}"
        else:
            key, fields[name] = name, text.strip()
    return fields


def _group_files(contents: Iterable[str]) -> dict[NameClass, defaultdict[str, set[str]]]:
    """Return the names of each package, by class: each line has a path and its packages."""
    found: dict[NameClass, defaultdict[str, set[str]]] = {
        kind: defaultdict(set) for kind in _LEAST_USERS
    }
    for line in contents:
        path, _, owners = line.rstrip().rpartition(" ")
        if name := _classify_file(path.rstrip()):
            for owner in owners.split(","):
                package = owner.rpartition("/")[2]
                if not _NOT_LIBRARIES.search(package):
                    found[name[0]][package].add(name[1])
    return found


def _classify_file(path: str) -> tuple[NameClass, str] | None:
    if path.startswith(_INCLUDE):
        return "headers", path.removeprefix(_INCLUDE).removeprefix(_MACHINE)
    if match := _LIBRARY.match(path):
        return "libraries", match[1]
    if match := _MODULE.match(path):
        return "modules", match[1]
    match = _PROGRAM.match(path)
    return ("programs", match[1]) if match else None


def _choose_owners(names: _Names, users: Counter[str], least: int) -> dict[str, list[str]]:
    """Return the names of packages that `least` sources need, each name in one package."""
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for package, found in names.items():
        if users[package] >= least:
            for name in found:
                owners[name].add(package)
    chosen: defaultdict[str, list[str]] = defaultdict(list)
    for name, packages in owners.items():
        chosen[max(packages, key=lambda one: (users[one], -len(one), one))].append(name)
    return chosen


def _choose_headers(headers: _Names, users: Counter[str]) -> dict[str, list[str]]:
    """Return the headers and folders of packages, without names that many packages have."""
    nested = Counter(
        part
        for found in headers.values()
        for part in {part for header in found for part in header.split("/")[1:]}
    )
    counts = Counter(
        top
        for package, found in headers.items()
        if users[package] >= _LEAST_USERS["headers"]
        for top in {_shorten(header, 1) for header in found}
    )
    names = {
        package: {
            name
            for name in _list_names(
                found, counts, nested, is_known=users[package] >= _COMMON_NAME_USERS
            )
            if users[package] >= _ANY_NAME_USERS or _is_related(name, package)
        }
        for package, found in headers.items()
    }
    chosen = _choose_owners(names, users, _LEAST_USERS["headers"])
    return {
        package: [one for one in found if one.endswith("/") or len(found) <= _MAX_HEADERS]
        for package, found in chosen.items()
        if len(found) <= _MAX_HEADERS or any(one.endswith("/") for one in found)
    }


def _shorten(path: str, depth: int) -> str:
    """Return a path shortened to `depth` parts: a/b.h to a/."""
    parts = path.split("/")
    return path if len(parts) <= depth else "/".join(parts[:depth]) + "/"


def _is_related(name: str, package: str) -> bool:
    """Return True if a header or folder is named after its package, such as git2.h of libgit2-dev.

    Other names, such as diagnostics.h, are also those of files in many projects.
    """
    library = package.removeprefix("lib").removesuffix("-dev").lower()
    parts = (one.partition(".")[0].lower() for one in name.rstrip("/").split("/"))
    return any(
        one in library or library in one or one[:_PREFIX_LENGTH] == library[:_PREFIX_LENGTH]
        for one in parts
    )


def _list_names(
    headers: Iterable[str], counts: Counter[str], nested: Counter[str], *, is_known: bool
) -> Iterator[str]:
    """Yield the folder of each header, or a deeper name if other packages have the folder too."""
    for header in headers:
        if is_known or nested[header.split("/")[0]] < _COMMON:
            top = _shorten(header, 1)
            yield _shorten(header, 2) if counts[top] > 1 and top.endswith("/") else top


_HEADER = """\
# The packages of Debian that have a header (or a folder of headers), a library to link with, a
# module of pkg-config and a program, as `doit refresh --debian URL` reads them from its index files
# (tasks/knowledge/system_packages_refresh.py). They are those of the release before the newest,
# whose names most systems have, and only packages that other sources need.
"""


def render_package_document(document: Mapping[NameClass, Mapping[str, str]]) -> str:
    """Return the text of config/knowledge/read/system_packages.yaml."""
    lines = []
    for kind, rows in document.items():
        lines.append(f"{kind}:")
        lines += [f'  {package}: "{names}"' for package, names in rows.items()]
    return _HEADER + "\n".join(lines) + "\n"
