"""Find the two conflicting requirements in the output of uv or pip."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

CONFLICT_SLUG = "resolver-conflict"
_CONSTRAINT = "a constraint requires"
_EXPLANATION_START = re.compile(
    r"No solution found|conflicting dependencies|The conflict is caused by"
)
_EXPLANATION_END = re.compile(r"To fix this you could try|ResolutionImpossible|^\s*hint:")
_FRAME = re.compile(r"[│├╰─▶×]+")
_SPECIFIER = r"(?:(?:===?|[<>~!]=|[<>])\s?[\w.*+!-]*\w\*?,?\s?)+"
_REQUIREMENT_WORDS = re.compile(
    rf"""
      (?P<concluded>\bwe\scan\sconclude\sthat\b) | (?P<because>\bbecause\b)
    | (?P<you>\b(?:you\srequire|your\sproject\sdepends\son|[Tt]he\suser\srequested)\b)
    | (?P<who>(?<![\w.-])[\w.-]+(?:\[[\w,.-]*\])?(?:[=<>!~]=?\S+|\s\d\S*)?)\sdepends?\son\b
    | (?<![\w.-])(?P<name>[A-Za-z][\w.-]*)(?:\[[\w,.-]*\])?(?P<specifier>{_SPECIFIER})
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True)
class _Requirement:
    """One requirement: the normalized `name`, the `text` as printed, and `who` requires it."""

    name: str
    specifier: str
    text: str
    who: str


def find_conflict(lines: Iterable[str]) -> str:
    """Return two conflicting requirements as a sentence, "" if none were found.

    For example, the index may lack a version instead.
    """
    found = list(_parse_requirements(_extract_explanation(lines)))
    for one, other in combinations(found, 2):
        if one.name == other.name and _is_exclusive(one.specifier, other.specifier):
            same = one.who == other.who and one.who != "you require"
            who = _CONSTRAINT if same else other.who  # uv names a constraint after a dependency
            return f"{one.who} {one.text}, and {who} {other.text}"
    return ""


def _extract_explanation(lines: Iterable[str]) -> str:
    """Return the resolver's explanation as one line, without uv's box-drawing characters."""
    kept: list[str] = []
    for line in lines:
        if kept and _EXPLANATION_END.search(line):
            break
        if kept or _EXPLANATION_START.search(line):
            kept.append(_FRAME.sub(" ", line))
    return " ".join(" ".join(kept).split())


def _parse_requirements(text: str) -> Iterator[_Requirement]:
    """Yield each requirement; skip conclusions, which only repeat them."""
    who, concluded = _CONSTRAINT, True
    for found in _REQUIREMENT_WORDS.finditer(text):
        if found["concluded"]:
            concluded = True
        elif found["because"]:
            who, concluded = _CONSTRAINT, False
        elif found["you"]:
            who, concluded = "you require", concluded and "user" not in found["you"].lower()
        elif found["who"]:
            who = f"{found['who']} depends on"
            concluded = concluded and " " not in found["who"]  # pip's list draws no conclusions
        elif not concluded and found["name"].lower() != "python":
            specifier = found["specifier"].strip(" ,")
            text_of = found[0].strip(" ,.")
            yield _Requirement(canonicalize_name(found["name"]), specifier, text_of, who)


def _is_exclusive(one: str, other: str) -> bool:
    """Return True if no version that either specifier mentions satisfies both."""
    try:
        both = SpecifierSet(f"{one},{other}", prereleases=True)
        named = [Version(spec.version.removesuffix(".*")) for spec in both]
    except (InvalidSpecifier, InvalidVersion):
        return one != other
    return not any(version in both for version in named)
