"""Links of the documentation lead to existing pages and headings, in the site and on GitHub, and to
valid addresses. Nothing is fetched.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.support.rows import each_row
from tests.support.snippets import ROOT, anchors, links, name_of, pages

SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
# Hosts that the documentation links to
HOSTS = {
    *("github.com", "gitlab.inria.fr", "peps.python.org", "pypi.org", "slsa.dev"),
    *("ui.perfetto.dev", "www.nvidia.com", "keepachangelog.com", "semver.org"),
}


@each_row("page", pages(), ids=name_of)
def test_links_lead_to_existing_pages_and_headings(page: Path) -> None:
    for link in links(page):
        address, _, anchor = link.partition("#")
        if urlsplit(link).scheme:
            continue
        target = page.parent / address if address else page
        assert target.exists(), f"{name_of(page)}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{name_of(page)}: {link}"


@each_row("page", pages(), ids=name_of)
def test_external_links_use_https_and_known_hosts(page: Path) -> None:
    for link in links(page):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme == "https", f"{name_of(page)}: {link}"
            assert parts.hostname in HOSTS, f"{name_of(page)}: {link}"


@each_row("page", sorted((ROOT / "docs").rglob("*.md")), ids=name_of)
def test_site_pages_do_not_link_outside_the_site(page: Path) -> None:
    """Other files of the checkout are named without a link: the site does not contain them."""
    docs = (ROOT / "docs").resolve()
    for link in links(page):
        if not urlsplit(link).scheme and (address := link.partition("#")[0]):
            assert (page.parent / address).resolve().is_relative_to(docs), (
                f"{name_of(page)}: {link}"
            )


def listed(node: Any) -> list[str]:
    """Return the pages of the navigation."""
    if isinstance(node, str):
        return [node]
    parts = node if isinstance(node, list) else list(node.values())
    return [name for part in parts for name in listed(part)]


def test_navigation_has_every_page_once() -> None:
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    named = listed(SITE["nav"])
    assert len(named) == len(set(named))
    assert set(named) <= there
    assert {name for name in there if not re.match(r"adr/\d", name)} <= set(named)


def test_every_adr_is_listed_with_its_title() -> None:
    page = (ROOT / "docs" / "adr" / "index.md").read_text(encoding="utf-8")
    for decision in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")):
        number, title = decision.read_text(encoding="utf-8").splitlines()[0][2:].split(". ", 1)
        assert f"{number}. [{title}]({decision.name})\n" in page


def test_site_loads_nothing_from_other_hosts() -> None:
    assert SITE["theme"]["font"] is False
    assert not {"repo_url", "extra_javascript"} & SITE.keys()
    for sheet in SITE["extra_css"]:
        style = (ROOT / "docs" / sheet).read_text(encoding="utf-8")
        assert not re.search(r"url\(|@import", style)
    assert SITE["strict"] is True


def test_heading_anchors_match_github_and_the_site(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A newcomer's path\n\n### `build.jobs`\n\n```sh\n# no title\n```\n", "utf-8")
    assert anchors(page) == {"a-newcomers-path", "buildjobs"}
