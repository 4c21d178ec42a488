"""The four questions, asked in a terminal. Return takes what stands in brackets; an answer that
means nothing is told why, and asked for again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

from tasks.cli.commands.init import answers as read
from tasks.cli.commands.init.answers import Answers
from tasks.cli.commands.init.here import Here, takes, with_into
from tasks.core.errors import BuildError
from tasks.core.formatting.lines import rows, wrapped
from tasks.system.voice import show

T = TypeVar("T")
_INDENT = 3
_BEFORE = (
    "The answers become config/local.yaml, which counts in every profile, before what the profile "
    "says. Return takes what stands in brackets. To take a profile as it is, there is no need of "
    "this: doit build profile=rtx5090."
)


@dataclass(frozen=True)
class Given:
    """What stood on the command line, which is not asked for again; "" where nothing did."""

    card: str = ""
    way: str = ""
    extensions: str = ""
    into: str = ""


def is_asked() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def answered(given: Given, known: Here, usual: Answers, *, ask: bool, room: int) -> Answers:
    """What was given, what is asked for and `usual` for the rest. Raises `BuildError`."""
    for line in wrapped(_BEFORE if ask else _not_asked(given), room):
        show(line)
    got = usual
    if given.card or ask:
        got = replace(got, gpus=_cards(given, known, usual, room))
    if given.way or ask:
        got = replace(got, way=_way(given, known, got, room))
    if given.extensions or ask:
        got = replace(got, extensions=_extensions(given, known, room))
    if given.into:
        with _of("--into"):
            return with_into(got, given.into, known)
    return _where(known, got, room) if ask else got


def _not_asked(given: Given) -> str:
    open_ = [f"--{name}" for name, value in asdict(given).items() if not value]
    rest = f"; the default for {', '.join(open_)}" if open_ else ""
    why = "--yes" if is_asked() else "no terminal to answer in"
    return f"nothing is asked ({why}){rest}"


@contextmanager
def _of(option: str) -> Iterator[None]:
    """An answer of the command line that means nothing is told with its option."""
    try:
        yield
    except BuildError as error:
        raise BuildError(error.what, where=option, todo=error.todo) from error


def _cards(given: Given, known: Here, usual: Answers, room: int) -> tuple[str, ...] | str | None:
    if given.card:
        with _of("--card"):
            return read.cards(given.card, known.knowledge)
    seen = ", ".join(known.seen)
    facts = [f"in this machine: {seen}" if seen else "no NVIDIA card is seen here"]
    if not seen:
        new = ", ".join(f"{name} ({arch})" for name, arch in known.new_cards())
        facts.append(f"for example {new}, or any other")
    facts.append("names or capabilities, with commas between; cpu for none")
    default = ", ".join(known.usual_cards) or "cpu"
    answer = _asked(
        Question("1. Which card is it for?", tuple(facts), default),
        lambda text: read.cards(text, known.knowledge),
        room,
    )
    return usual.gpus if answer is None else answer


def _way(given: Given, known: Here, got: Answers, room: int) -> str | None:
    if given.way:
        with _of("--way"):
            return read.way(given.way)
    gpus = got.gpus if got.gpus is not None else known.settings.target.gpus
    own = known.settings.torch.strategy
    default = own
    question = Question("2. Which way to a torch?", tuple(_ways(known, gpus)), default, table=True)
    return _asked(question, read.way, room)


def _ways(known: Here, gpus: tuple[str, ...] | str) -> Iterator[str]:
    found = known.ways(gpus)
    chosen = next((way for way in found if way.chosen), None)
    now = f"now {chosen.strategy}: {chosen.why}" if chosen else "finds none here: doit doctor"
    yield f"auto\tthe planner chooses; {now}"
    what = {
        "prebuilt": "the official wheel",
        "source": "PyTorch's own tree, compiled here: a patch, your flags, one arch",
        "existing": "the torch that an interpreter of yours has already",
    }
    for way in found:
        time = takes(way, known.disks) if way.strategy != "existing" else ""
        told = f"{what[way.strategy]}{f' ({time})' if time else ''}"
        refused = not way.possible and way.strategy != "existing"
        yield f"{way.strategy}\t{told}{f'; not here: {way.why}' if refused else ''}"


_SPLATTING = (
    "diff-gaussian-rasterization and simple-knn, for Gaussian Splatting before October 2024; "
    "since then name its submodules' folders, or diff-gaussian-rasterization-dr-aa"
)


def _extensions(given: Given, known: Here, room: int) -> tuple[read.Listed, ...] | None:
    def taken(text: str) -> tuple[read.Listed, ...]:
        return read.extensions(text, known.knowledge, known.root)

    if given.extensions:
        with _of("--extensions"):
            return taken(given.extensions)
    facts: tuple[str, ...] = (
        f"3dgs\t{_SPLATTING}",
        f"NAME\ta known one: {', '.join(sorted(known.knowledge.extensions))}",
        "PLACE\ta folder of yours with its setup.py, or the URL of a git repository",
        "none\ttorch alone",
    )
    own = ", ".join(one.name for one in known.settings.extensions)
    default = "profile" if own else "none"
    if own:
        facts = (f"profile\twhat the profile has: {own}", *facts)
    question = Question(
        "3. Which CUDA extensions, with commas between?", facts, default, table=True
    )
    return _asked(question, taken, room)


def _where(known: Here, got: Answers, room: int) -> Answers:
    existing = got.way == "existing"
    title = "4. Which Python has the torch?" if existing else "4. Where shall it be?"
    facts = [] if existing else [f"own\tan environment of its own: {known.build}"]
    facts.append("PYTHON\tthe Python of an environment of yours (conda, a project's venv)")
    facts += [f"\tactive here: {place}" for place in _active()]
    default = next(iter(_active()), "") if existing else "own"
    question = Question(title, tuple(facts), default, table=True)

    def taken(text: str) -> Answers:
        return got if text == "own" and not existing else with_into(got, text, known)

    answer = _asked(question, taken, room)
    if answer is None and existing:
        return taken(default)
    return answer or got


def _active() -> tuple[str, ...]:
    """Environments that the shell has active, but for the one that runs doit."""
    named = (os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
    ours = Path(sys.prefix).resolve()
    return tuple(dict.fromkeys(one for one in named if one and Path(one).resolve() != ours))


@dataclass(frozen=True)
class Question:
    """A line, what helps to answer it (with `table`: a word, a tab and what it means), and what
    Return means, "" where that is nothing.
    """

    title: str
    facts: tuple[str, ...]
    default: str
    table: bool = False


def _asked(question: Question, take: Callable[[str], T], room: int) -> T | None:
    """The answer, None for Return."""
    show("")
    for line in _told(question, room):
        show(line)
    while True:
        text = _line(question.default)
        if question.default and text in ("", question.default):
            return None
        try:
            return take(text)
        except BuildError as error:
            for told in filter(None, (error.what, error.todo and f"→ {error.todo}")):
                for line in wrapped(told, room - _INDENT):
                    show(f"{'':{_INDENT}}{line}")


def _told(question: Question, room: int) -> Iterator[str]:
    yield question.title
    width = 11 if question.table else 0
    for fact in question.facts:
        word, _, meaning = fact.rpartition("\t")
        yield from rows(f"{'':{_INDENT}}{word}", meaning, _INDENT + width, room)


def _line(default: str) -> str:
    """What was typed. Raises `BuildError` where nobody answers any more."""
    from rich.prompt import Prompt  # noqa: PLC0415 - only where somebody is asked
    from rich.text import Text  # noqa: PLC0415

    shown = Text(f"{'':{_INDENT}}[{default}]" if default else f"{'':{_INDENT - 1}}")
    try:
        return Prompt.ask(shown, default="", show_default=False).strip()
    except EOFError:
        show("")
        raise BuildError(
            "the questions were not answered to the end; nothing was written",
            todo="doit init --yes takes what stands in brackets",
        ) from None
