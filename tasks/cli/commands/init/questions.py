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
from tasks.cli.commands.init.here import InitFacts, apply_install_target, format_strategy_cost
from tasks.core.errors import TorchyardError
from tasks.core.formatting.lines import format_labeled_lines, wrap_text
from tasks.system.voice import print_report

T = TypeVar("T")
_QUESTION_INDENT = 3
_INTRODUCTION = (
    "The answers become config/local.yaml, which counts in every profile, before what the profile "
    "says. Return takes what stands in brackets. To take a profile as it is, there is no need of "
    "this: doit build profile=rtx5090."
)


@dataclass(frozen=True)
class GivenOptions:
    """What stood on the command line, which is not asked for again; "" where nothing did."""

    card: str = ""
    way: str = ""
    extensions: str = ""
    into: str = ""


def is_interactive() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def collect_answers(
    given: GivenOptions, known: InitFacts, usual: Answers, *, ask: bool, room: int
) -> Answers:
    """What was given, what is asked for and `usual` for the rest. Raises `BuildError`."""
    for line in wrap_text(_INTRODUCTION if ask else _explain_no_questions(given), room):
        print_report(line)
    got = usual
    if given.card or ask:
        got = replace(got, gpus=_ask_gpus(given, known, usual, room))
    if given.way or ask:
        got = replace(got, strategy=_ask_strategy(given, known, got, room))
    if given.extensions or ask:
        got = replace(got, extensions=_ask_extensions(given, known, room))
    if given.into:
        with _attribute_errors("--into"):
            return apply_install_target(got, given.into, known)
    return _ask_location(known, got, room) if ask else got


def _explain_no_questions(given: GivenOptions) -> str:
    open_ = [f"--{name}" for name, value in asdict(given).items() if not value]
    rest = f"; the default for {', '.join(open_)}" if open_ else ""
    why = "--yes" if is_interactive() else "no terminal to answer in"
    return f"nothing is asked ({why}){rest}"


@contextmanager
def _attribute_errors(option: str) -> Iterator[None]:
    """An answer of the command line that means nothing is told with its option."""
    try:
        yield
    except TorchyardError as error:
        raise TorchyardError(error.message, location=option, hint=error.hint) from error


def _ask_gpus(
    given: GivenOptions, known: InitFacts, usual: Answers, room: int
) -> tuple[str, ...] | str | None:
    if given.card:
        with _attribute_errors("--card"):
            return read.parse_gpus(given.card, known.knowledge)
    seen = ", ".join(known.visible_gpus)
    facts = [f"in this machine: {seen}" if seen else "no NVIDIA card is seen here"]
    if not seen:
        new = ", ".join(f"{name} ({arch})" for name, arch in known.list_recent_gpus())
        facts.append(f"for example {new}, or any other")
    facts.append("names or capabilities, with commas between; cpu for none")
    default = ", ".join(known.default_gpus) or "cpu"
    answer = _ask_question(
        Question("1. Which card is it for?", tuple(facts), default),
        lambda text: read.parse_gpus(text, known.knowledge),
        room,
    )
    return usual.gpus if answer is None else answer


def _ask_strategy(given: GivenOptions, known: InitFacts, got: Answers, room: int) -> str | None:
    if given.way:
        with _attribute_errors("--way"):
            return read.parse_strategy(given.way)
    gpus = got.gpus if got.gpus is not None else known.settings.target.gpus
    own = known.settings.torch.strategy
    default = own
    question = Question(
        "2. Which way to a torch?", tuple(_list_strategy_facts(known, gpus)), default, table=True
    )
    return _ask_question(question, read.parse_strategy, room)


def _list_strategy_facts(known: InitFacts, gpus: tuple[str, ...] | str) -> Iterator[str]:
    found = known.list_strategies(gpus)
    chosen = next((way for way in found if way.chosen), None)
    now = f"now {chosen.strategy}: {chosen.why}" if chosen else "finds none here: doit doctor"
    yield f"auto\tthe planner chooses; {now}"
    what = {
        "prebuilt": "the official wheel",
        "source": "PyTorch's own tree, compiled here: a patch, your flags, one arch",
        "existing": "the torch that an interpreter of yours has already",
    }
    for way in found:
        time = format_strategy_cost(way, known.disks) if way.strategy != "existing" else ""
        told = f"{what[way.strategy]}{f' ({time})' if time else ''}"
        refused = not way.possible and way.strategy != "existing"
        yield f"{way.strategy}\t{told}{f'; not here: {way.why}' if refused else ''}"


_SPLATTING_HELP = (
    "diff-gaussian-rasterization and simple-knn, for Gaussian Splatting before October 2024; "
    "since then name its submodules' folders, or diff-gaussian-rasterization-dr-aa"
)


def _ask_extensions(
    given: GivenOptions, known: InitFacts, room: int
) -> tuple[read.ExtensionEntry, ...] | None:
    def parse_answer(text: str) -> tuple[read.ExtensionEntry, ...]:
        return read.parse_extensions(text, known.knowledge, known.root)

    if given.extensions:
        with _attribute_errors("--extensions"):
            return parse_answer(given.extensions)
    facts: tuple[str, ...] = (
        f"3dgs\t{_SPLATTING_HELP}",
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
    return _ask_question(question, parse_answer, room)


def _ask_location(known: InitFacts, got: Answers, room: int) -> Answers:
    existing = got.strategy == "existing"
    title = "4. Which Python has the torch?" if existing else "4. Where shall it be?"
    facts = [] if existing else [f"own\tan environment of its own: {known.build}"]
    facts.append("PYTHON\tthe Python of an environment of yours (conda, a project's venv)")
    facts += [f"\tactive here: {place}" for place in _list_active_environments()]
    default = next(iter(_list_active_environments()), "") if existing else "own"
    question = Question(title, tuple(facts), default, table=True)

    def apply_answer(text: str) -> Answers:
        return got if text == "own" and not existing else apply_install_target(got, text, known)

    answer = _ask_question(question, apply_answer, room)
    if answer is None and existing:
        return apply_answer(default)
    return answer or got


def _list_active_environments() -> tuple[str, ...]:
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


def _ask_question(question: Question, take: Callable[[str], T], room: int) -> T | None:
    """The answer, None for Return."""
    print_report("")
    for line in _format_question(question, room):
        print_report(line)
    while True:
        text = _read_answer(question.default)
        if question.default and text in ("", question.default):
            return None
        try:
            return take(text)
        except TorchyardError as error:
            for told in filter(None, (error.message, error.hint and f"→ {error.hint}")):
                for line in wrap_text(told, room - _QUESTION_INDENT):
                    print_report(f"{'':{_QUESTION_INDENT}}{line}")


def _format_question(question: Question, room: int) -> Iterator[str]:
    yield question.title
    width = 11 if question.table else 0
    for fact in question.facts:
        word, _, meaning = fact.rpartition("\t")
        yield from format_labeled_lines(
            f"{'':{_QUESTION_INDENT}}{word}", meaning, _QUESTION_INDENT + width, room
        )


def _read_answer(default: str) -> str:
    """What was typed. Raises `BuildError` where nobody answers any more."""
    from rich.prompt import Prompt  # noqa: PLC0415 - only where somebody is asked
    from rich.text import Text  # noqa: PLC0415

    shown = Text(
        f"{'':{_QUESTION_INDENT}}[{default}]" if default else f"{'':{_QUESTION_INDENT - 1}}"
    )
    try:
        return Prompt.ask(shown, default="", show_default=False).strip()
    except EOFError:
        print_report("")
        raise TorchyardError(
            "the questions were not answered to the end; nothing was written",
            hint="doit init --yes takes what stands in brackets",
        ) from None
