"""What stands in the documentation: blocks of code with the mark before them, inline code, links.

A mark is an HTML comment in the line before a block: `<!-- not run: REASON -->`,
`<!-- run by FILE -->`, or for YAML that is no settings `<!-- not settings: WHAT -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^( *)(```+)(\w*)\s*$")
_MARK = re.compile(
    r"^\s*<!-- (not run|run by|not settings): ?(.*?) -->$|^\s*<!-- run by (.*?) -->$"
)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)|<(https?:[^>\s]+)>")
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Mark:
    """What is said of a block: `kind` is "not run", "run by" or "not settings"."""

    kind: str
    text: str


@dataclass(frozen=True)
class Snippet:
    """A block of code: its place, its language, its text, and what is said of it."""

    where: str
    language: str
    text: str
    mark: Mark | None


def pages() -> list[Path]:
    """Everything that a person reads as documentation."""
    return [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def snippets(page: Path, text: str | None = None) -> list[Snippet]:
    """The blocks of a page, in order."""
    lines = (text or page.read_text(encoding="utf-8")).splitlines()
    found: list[Snippet] = []
    number = 0
    while number < len(lines):
        if not (fence := _FENCE.match(lines[number])):
            number += 1
            continue
        end = next(n for n in range(number + 1, len(lines)) if lines[n].strip() == fence[2])
        inside = (line.removeprefix(fence[1]) for line in lines[number + 1 : end])
        mark = _mark(lines[number - 1]) if number else None
        where = f"{name_of(page)}:{number + 1}"
        found.append(Snippet(where, fence[3], "\n".join(inside) + "\n", mark))
        number = end + 1
    return found


def _mark(line: str) -> Mark | None:
    if not (found := _MARK.match(line)):
        return None
    return Mark(found[1], found[2]) if found[1] else Mark("run by", found[3])


def every(*languages: str) -> list[Snippet]:
    """The blocks of these languages, of all pages."""
    return [one for page in pages() for one in snippets(page) if one.language in languages]


def commands(text: str) -> Iterator[str]:
    """The commands of a block for a shell, one by one, without what is said beside them."""
    for line in text.splitlines():
        bare = re.sub(r"(^|\s)#.*", "", line)
        yield from (part.strip() for part in re.split(r"&&|;", bare) if part.strip())


def _prose(page: Path) -> str:
    """Without blocks and without comments."""
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    kept, inside = [], False
    for line in text.splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def inline(page: Path) -> list[str]:
    """The inline code of a page."""
    return _INLINE.findall(_prose(page))


def links(page: Path) -> list[str]:
    """The targets of a page's links and pictures."""
    found = _LINK.findall(re.sub(r"`[^`\n]*`", "", _prose(page)))
    return [next(filter(None, groups)) for groups in found]


def anchors(page: Path) -> set[str]:
    """What can be linked to on a page: its titles, as GitHub names them."""
    titles = re.findall(r"^#+ +(.*?) *$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
