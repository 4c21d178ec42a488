"""Find two conflicting requirements in the output of uv or pip."""

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
      (?P<offered>\bonly\s(?=(?:the\sfollowing\sversions\sof\s)?\S+\s(?:is|are)\savailable\b))
    | (?P<concluded>\bwe\scan\sconclude\sthat\b) | (?P<because>\bbecause\b)
    | (?P<you>\b(?:you\srequire|your\sproject\sdepends\son|[Tt]he\suser\srequested)\b)
    | (?P<who>(?<![\w.-])[\w.-]+(?:\[[\w,.-]*\])?(?:[=<>!~]=?\S+|\s\d\S*)?)\sdepends?\son\b
    | (?<![\w.-])(?P<name>[A-Za-z][\w.-]*)(?:\[[\w,.-]*\])?(?P<specifier>{_SPECIFIER})
        (?![\w.*+-]|\s?(?:has|have)\sno\b)
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True)
class _Requirement:
    """A requirement. In "a depends on b>=2", `who` is "a depends on" and `text` is "b>=2"."""

    name: str
    specifier: str
    text: str
    who: str

    @property
    def package(self) -> str:
        """The package that has the requirement, without its version."""
        return re.split(r"[=<>!~\s\[]", self.who, maxsplit=1)[0]


def find_conflict(lines: Iterable[str]) -> str:
    """Return two conflicting requirements as a sentence, "" if none were found."""
    explanation: list[str] = []  # without uv's box-drawing characters
    for line in lines:
        if explanation and _EXPLANATION_END.search(line):
            break
        if explanation or _EXPLANATION_START.search(line):
            explanation += _FRAME.sub(" ", line).split()
    requirements = list(_parse_requirements(" ".join(explanation)))
    for one, other in combinations(requirements, 2):
        # Two releases of a package, each of which pip tried, do not conflict
        is_alternative = one.package == other.package and one.who != other.who
        if is_alternative or one.name != other.name:
            continue
        if _is_exclusive(one.specifier, other.specifier):
            # uv names a constraint after a dependency
            is_same_origin = one.who == other.who and one.who != "you require"
            origin = _CONSTRAINT if is_same_origin else other.who
            return f"{one.who} {one.text}, and {origin} {other.text}"
    return ""


def _parse_requirements(text: str) -> Iterator[_Requirement]:
    """Yield each requirement in the text, except uv's conclusions and the releases that exist.

    uv writes "we can conclude that" and "only the following versions of torch are available".
    """
    origin, is_conclusion, is_offer = _CONSTRAINT, True, False
    for match in _REQUIREMENT_WORDS.finditer(text):
        if not match["name"]:
            is_offer = bool(match["offered"])
        if match["concluded"]:
            is_conclusion = True
        elif match["because"]:
            origin, is_conclusion = _CONSTRAINT, False
        elif match["you"]:
            origin = "you require"
            is_conclusion = is_conclusion and "user" not in match["you"].lower()
        elif match["who"]:
            origin = f"{match['who']} depends on"
            # pip's list draws no conclusions
            is_conclusion = is_conclusion and " " not in match["who"]
        elif match["name"] and not (is_conclusion or is_offer or match["name"].lower() == "python"):
            name, specifier = canonicalize_name(match["name"]), match["specifier"].strip(" ,")
            yield _Requirement(name, specifier, match[0].strip(" ,."), origin)


def _is_exclusive(one: str, other: str) -> bool:
    """Return True if two specifiers, such as `<2` and `>=3`, exclude each other."""
    try:
        combined = SpecifierSet(f"{one},{other}", prereleases=True)
        versions = [Version(spec.version.removesuffix(".*")) for spec in combined]
    except (InvalidSpecifier, InvalidVersion):
        return one != other
    return not any(version in combined for version in versions)
