"""What is fetched instead of a URL. It changes nothing of what the URL stands for. Pure."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT_INDEX = "https://pypi.org/simple"  # of uv and pip


def apply_mirror(url: str, mirrors: Mapping[str, str]) -> str:
    """The URL that is fetched instead: the longest prefix counts, as with git's insteadOf."""
    fit = [prefix for prefix in mirrors if url.startswith(prefix)]
    longest = max(fit, key=len, default="")
    return mirrors[longest] + url.removeprefix(longest) if longest else url


def apply_index_mirror(index: str, mirrors: Mapping[str, str]) -> str:
    """The same of an index, which is one with a slash at its end and without."""
    place = apply_mirror(f"{index}/", mirrors)
    return index if place == f"{index}/" else place.rstrip("/")
