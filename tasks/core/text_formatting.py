"""Format durations, sizes, short lists and suggestions as text."""

from collections.abc import Iterable, Sequence


def format_duration(seconds: float) -> str:
    """Return a duration as text: `0.4 s`, `12 s`, `3 min 05 s`, `2 h 14 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def format_rough_duration(seconds: float) -> str:
    """Return a rounded duration as text: `20 s`, `31 min`, `1 h`, `2 h 05 min`."""
    if seconds < 55:
        return f"{max(10, 10 * round(seconds / 10))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(5 * round(minutes / 5), 60)
    return f"{hours} h {minutes:02} min" if minutes else f"{hours} h"


_MIB_PER_GIB = 1024


def format_size(mib: float) -> str:
    """Return a size in MiB or GiB: `512 MiB`, `4.6 GiB`, `24 GiB`, `1,200 GiB`."""
    return f"{round(mib)} MiB" if round(mib) < _MIB_PER_GIB else f"{format_gib(mib)} GiB"


def format_size_range(least: float, most: float) -> str:
    """Return `3.2 GiB to 18 GiB`, or only `6.2 GiB` if both sizes round to the same text."""
    low, high = format_size(least), format_size(most)
    return low if low == high else f"{low} to {high}"


def format_gib(mib: float) -> str:
    """Return the number of GiB without the unit: `0.5`, `9.8`, `24`, `1,200`."""
    tenths = f"{mib / _MIB_PER_GIB:.1f}"
    return tenths.removesuffix(".0") if len(tenths) == len("9.8") else f"{mib / _MIB_PER_GIB:,.0f}"


def format_short_list(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return the first `most` names, separated by `between`, and a count: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def format_short_reasons(reasons: Sequence[str], most: int = 1) -> str:
    """Return the first `most` reasons, and a count: `the archs changed (and 2 more)`."""
    more = f" (and {len(reasons) - most} more)" if len(reasons) > most else ""
    return ", ".join(reasons[:most]) + more


def find_nearest_word(word: str, known: Iterable[str]) -> str:
    """Return the known word that is most similar to `word`, "" if none is similar."""
    import difflib  # noqa: PLC0415 - only for mistakes

    names_by_lowercase = {name.lower(): name for name in known}
    matches = difflib.get_close_matches(word.lower(), names_by_lowercase, n=1, cutoff=0.6)
    return names_by_lowercase[matches[0]] if matches else ""


def format_did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean "gpus"?`, or "" if no known word is similar."""
    suggestion = find_nearest_word(word, known)
    return f'; did you mean "{suggestion}"?' if suggestion else ""
