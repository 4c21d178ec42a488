"""`doit init`: ask at most four questions and write config/local.yaml.

The questions are GPU, strategy, extensions and location. An option on the command line replaces its
question. Without a terminal, or with `--yes`, nothing is asked.

The plan is made from the answers before the file is written. An existing file is replaced only with
`--force`, and a backup is kept beside it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from difflib import unified_diff
from pathlib import Path
from typing import TypeVar

from tasks.cli.commands import init_answers
from tasks.cli.commands.explain import show_decisions
from tasks.cli.decisions import DepsResults, list_decisions
from tasks.cli.session import open_profile
from tasks.core.errors import TorchyardError
from tasks.core.text_layout import wrap_text
from tasks.knowledge import Knowledge
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tasks.settings.layers_io import read_yaml_text
from tasks.settings.loaded_settings import mask_settings_text
from tasks.stages.install.target_interpreter_io import check_install_target as check_install
from tasks.system import screen
from tasks.system.files import write_atomic
from tasks.system.output import print_report, print_warning
from tasks.system.profile_hint import format_profile_argument

T = TypeVar("T")
_QUESTION_INDENT = 3
_INTRODUCTION = (
    "The answers become config/local.yaml, which counts in every profile, before what the profile "
    "says. Return takes what stands in brackets. To take a profile as it is, there is no need of "
    "this: doit build profile=rtx5090."
)


@dataclass(frozen=True)
class GivenOptions:
    """Options of the command line, which replace questions; "" if not given."""

    card: str = ""
    way: str = ""
    extensions: str = ""
    into: str = ""


def is_interactive() -> bool:
    """Return True if standard input and output are terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def collect_answers(
    given: GivenOptions,
    known: init_answers.InitFacts,
    usual: init_answers.Answers,
    *,
    ask: bool,
    room: int,
) -> init_answers.Answers:
    """Return the given options, the answers to the questions, and `usual` for the rest.

    Raises `TorchyardError` for an invalid option.
    """
    for line in wrap_text(_INTRODUCTION if ask else _explain_no_questions(given), room):
        print_report(line)
    answers = usual
    if given.card or ask:
        answers = replace(answers, gpus=_ask_gpus(given, known, usual, room))
    if given.way or ask:
        answers = replace(answers, strategy=_ask_strategy(given, known, answers, room))
    if given.extensions or ask:
        answers = replace(answers, extensions=_ask_extensions(given, known, room))
    if given.into:
        with _attribute_errors("--into"):
            return init_answers.apply_install_target(answers, given.into, known)
    return _ask_location(known, answers, room) if ask else answers


def _explain_no_questions(given: GivenOptions) -> str:
    unset = [f"--{name}" for name, value in asdict(given).items() if not value]
    defaults = f"; the default for {', '.join(unset)}" if unset else ""
    reason = "--yes" if is_interactive() else "no terminal to answer in"
    return f"nothing is asked ({reason}){defaults}"


@contextmanager
def _attribute_errors(option: str) -> Iterator[None]:
    """Set the option as the location of errors that an option of the command line causes."""
    try:
        yield
    except TorchyardError as error:
        raise TorchyardError(error.message, location=option, hint=error.hint) from error


def _ask_gpus(
    given: GivenOptions, known: init_answers.InitFacts, usual: init_answers.Answers, room: int
) -> tuple[str, ...] | str | None:
    if given.card:
        with _attribute_errors("--card"):
            return init_answers.parse_gpus(given.card, known.knowledge)
    visible = ", ".join(known.visible_gpus)
    facts = [f"in this machine: {visible}" if visible else "no NVIDIA card is seen here"]
    if not visible:
        recent = ", ".join(f"{name} ({arch})" for name, arch in known.list_recent_gpus())
        facts.append(f"for example {recent}, or any other")
    facts.append("names or capabilities, with commas between; cpu for none")
    default = ", ".join(known.default_gpus) or "cpu"
    answer = _ask_question(
        Question("1. Which card is it for?", tuple(facts), default),
        lambda text: init_answers.parse_gpus(text, known.knowledge),
        room,
    )
    return usual.gpus if answer is None else answer


def _ask_strategy(
    given: GivenOptions, known: init_answers.InitFacts, got: init_answers.Answers, room: int
) -> str | None:
    if given.way:
        with _attribute_errors("--way"):
            return init_answers.parse_strategy(given.way)
    gpus = got.gpus if got.gpus is not None else known.settings.target.gpus
    configured = known.settings.torch.strategy
    default = configured
    question = Question(
        "2. Which way to a torch?", tuple(_list_strategy_facts(known, gpus)), default, table=True
    )
    return _ask_question(question, init_answers.parse_strategy, room)


def _list_strategy_facts(
    known: init_answers.InitFacts, gpus: tuple[str, ...] | str
) -> Iterator[str]:
    strategies = known.list_strategies(gpus)
    chosen = next((strategy for strategy in strategies if strategy.chosen), None)
    current = f"now {chosen.strategy}: {chosen.why}" if chosen else "finds none here: doit doctor"
    yield f"auto\tthe planner chooses; {current}"
    descriptions = {
        "prebuilt": "the official wheel",
        "source": "PyTorch's own tree, compiled here: a patch, your flags, one arch",
        "existing": "the torch that an interpreter of yours has already",
    }
    for strategy in strategies:
        cost = (
            init_answers.format_strategy_cost(strategy, known.disks)
            if strategy.strategy != "existing"
            else ""
        )
        text = f"{descriptions[strategy.strategy]}{f' ({cost})' if cost else ''}"
        is_refused = not strategy.possible and strategy.strategy != "existing"
        yield f"{strategy.strategy}\t{text}{f'; not here: {strategy.why}' if is_refused else ''}"


_SPLATTING_HELP = (
    "diff-gaussian-rasterization and simple-knn, for Gaussian Splatting before October 2024; "
    "since then name its submodules' folders, or diff-gaussian-rasterization-dr-aa"
)


def _ask_extensions(
    given: GivenOptions, known: init_answers.InitFacts, room: int
) -> tuple[init_answers.ExtensionEntry, ...] | None:
    def parse_answer(text: str) -> tuple[init_answers.ExtensionEntry, ...]:
        return init_answers.parse_extensions(text, known.knowledge, known.root)

    if given.extensions:
        with _attribute_errors("--extensions"):
            return parse_answer(given.extensions)
    facts: tuple[str, ...] = (
        f"3dgs\t{_SPLATTING_HELP}",
        f"NAME\ta known one: {', '.join(sorted(known.knowledge.extensions))}",
        "PLACE\ta folder of yours with its setup.py, or the URL of a git repository",
        "none\ttorch alone",
    )
    configured = ", ".join(one.name for one in known.settings.extensions)
    default = "profile" if configured else "none"
    if configured:
        facts = (f"profile\twhat the profile has: {configured}", *facts)
    question = Question(
        "3. Which CUDA extensions, with commas between?", facts, default, table=True
    )
    return _ask_question(question, parse_answer, room)


def _ask_location(
    known: init_answers.InitFacts, got: init_answers.Answers, room: int
) -> init_answers.Answers:
    is_existing = got.strategy == "existing"
    title = "4. Which Python has the torch?" if is_existing else "4. Where shall it be?"
    facts = [] if is_existing else [f"own\tan environment of its own: {known.build}"]
    facts.append("PYTHON\tthe Python of an environment of yours (conda, a project's venv)")
    facts += [f"\tactive here: {place}" for place in _list_active_environments()]
    default = next(iter(_list_active_environments()), "") if is_existing else "own"
    question = Question(title, tuple(facts), default, table=True)

    def apply_answer(text: str) -> init_answers.Answers:
        return (
            got
            if text == "own" and not is_existing
            else init_answers.apply_install_target(got, text, known)
        )

    answer = _ask_question(question, apply_answer, room)
    if answer is None and is_existing:
        return apply_answer(default)
    return answer or got


def _list_active_environments() -> tuple[str, ...]:
    """Return the active environments of the shell, except the one that runs doit."""
    prefixes = (os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
    own_prefix = Path(sys.prefix).resolve()
    return tuple(
        dict.fromkeys(one for one in prefixes if one and Path(one).resolve() != own_prefix)
    )


@dataclass(frozen=True)
class Question:
    """A question. `default` is the meaning of Return, "" if an answer is required.

    `facts` help to answer it. With `table`, a fact is a word, a tab and its meaning.
    """

    title: str
    facts: tuple[str, ...]
    default: str
    table: bool = False


def _ask_question(question: Question, take: Callable[[str], T], room: int) -> T | None:
    """Ask until the answer is valid; return it, or None for Return."""
    print_report("")
    print_report(question.title)
    for fact in question.facts:
        word, _, meaning = fact.rpartition("\t")
        indent = _QUESTION_INDENT + (11 if question.table else 0)
        screen.print_labeled_text(f"{'':{_QUESTION_INDENT}}{word}", meaning, indent, room)
    while True:
        text = _read_answer(question.default)
        if question.default and text in ("", question.default):
            return None
        try:
            return take(text)
        except TorchyardError as error:
            for line in filter(None, (error.message, error.hint and f"→ {error.hint}")):
                screen.print_labeled_text("", line, _QUESTION_INDENT, room)


def _read_answer(default: str) -> str:
    """Return the typed text. Raises `TorchyardError` at the end of input."""
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


LOCAL_SETTINGS_PATH = "config/local.yaml"


def run(  # noqa: PLR0913, PLR0917 - an option each
    subject: SelectedProfile,
    card: str = "",
    way: str = "",
    extensions: str = "",
    into: str = "",
    yes: bool = False,
    force: bool = False,
) -> None:
    """Ask, plan and write config/local.yaml.

    Raises `TorchyardError` if an answer is invalid, or if another file exists and `force` is not
    set; nothing is written then.
    """
    path = subject.root / LOCAL_SETTINGS_PATH
    ask = is_interactive() and not yes
    if ask and not force:
        _require_absent(path, format_profile_argument(subject.name))
    facts = init_answers.gather_init_facts(subject)
    options = GivenOptions(card, way, extensions, into)
    answers = collect_answers(
        options,
        facts,
        init_answers.build_default_answers(facts),
        ask=ask,
        room=screen.read_terminal_width(),
    )
    text = init_answers.format_local_yaml(
        answers if facts.companions.set else _add_companions(subject, answers, facts)
    )
    planned, problem = _plan_with_answers(subject, text, facts.knowledge)
    _write_local_settings(path, text, force=force)
    if planned:
        print_report("")
        show_decisions(list_decisions(planned, DepsResults()))
    if problem:
        print_warning("the profile itself cannot be opened, with this file and without it")
        raise problem
    print_report(f"next: doit build{format_profile_argument(subject.name)}")


def _require_absent(path: Path, profile: str) -> None:
    if path.exists():
        raise TorchyardError(
            "this file is there already, and nothing was asked or written",
            location=LOCAL_SETTINGS_PATH,
            hint=(
                f"edit it; or doit init --force{profile}, which keeps it as "
                f"{_choose_backup_path(path).name}"
            ),
        )


def _add_companions(
    subject: SelectedProfile, got: init_answers.Answers, known: init_answers.InitFacts
) -> init_answers.Answers:
    """Add the companion packages found in the environment that can be planned.

    The user did not request them, so none may break the request. Raises `TorchyardError` if the
    request cannot be planned without them.
    """
    if not got.companions:
        return got
    accepted: tuple[str, ...] = ()
    _plan_with_answers(
        subject, init_answers.format_local_yaml(replace(got, companions=None)), known.knowledge
    )
    for name in got.companions:
        candidate = replace(got, companions=(*accepted, name))
        try:
            _plan_with_answers(subject, init_answers.format_local_yaml(candidate), known.knowledge)
        except TorchyardError as error:
            print_warning(
                f"{got.into} has {name}, which may not work with another torch: {error.message}"
            )
        else:
            accepted = candidate.companions or ()
    if accepted:
        reason = f"found in {got.into}; each belongs to one torch, and moves with it"
        print_report(f"companions: {', '.join(accepted)} ({reason})")
    return replace(got, companions=accepted or None)


def _plan_with_answers(
    subject: SelectedProfile, text: str, knowledge: Knowledge
) -> tuple[Profile | None, TorchyardError | None]:
    """Return the profile with the new file, or its problem if the new file does not cause it.

    Raises `TorchyardError` if the new file causes the problem.
    """
    try:
        return _open_with_answers(subject, text, knowledge), None
    except TorchyardError as error:
        try:
            _open_with_answers(subject, "", knowledge)
        except TorchyardError as profile_error:
            if str(profile_error) == str(error):
                return None, profile_error
        hint = "; ".join(filter(None, (error.hint, f"{LOCAL_SETTINGS_PATH} was not written")))
        raise TorchyardError(error.message, location=error.location, hint=hint) from error


def _open_with_answers(subject: SelectedProfile, text: str, knowledge: Knowledge) -> Profile:
    opened = open_profile(subject.root, subject.name, os.environ, knowledge, local=text)
    own_prefixes = {sys.prefix, sys.base_prefix}
    check_install(opened.loaded.settings, opened.layout, opened.choice, own_prefixes)
    return opened


def _write_local_settings(path: Path, text: str, *, force: bool) -> None:
    """Write the file. Raises `TorchyardError` if another one exists and `force` is not set."""
    before = read_yaml_text(path, LOCAL_SETTINGS_PATH) if path.is_file() else None
    if before == text:
        print_report(f"{LOCAL_SETTINGS_PATH} says that already")
        return
    if before is not None:
        for line in _format_difference(before, text):
            print_report(line)
        copy = _choose_backup_path(path)
        if not force:
            raise TorchyardError(
                "this file is there already, and was not changed",
                location=LOCAL_SETTINGS_PATH,
                hint=f"doit init --force puts the new one there, and keeps this as {copy.name}",
            )
        write_atomic(copy, path.read_bytes(), _read_file_mode(path))
        print_report(
            f"what {LOCAL_SETTINGS_PATH} held is in {copy.relative_to(path.parents[1]).as_posix()}"
        )
    write_atomic(path.resolve(), text, _read_file_mode(path))  # write through a symbolic link
    print_report(f"wrote {LOCAL_SETTINGS_PATH}, which counts in every profile")


def _read_file_mode(path: Path) -> int:
    """Return the permissions of the existing file, 0o644 without one, for the new file."""
    return stat.S_IMODE(path.stat().st_mode) if path.is_file() else 0o644


def _choose_backup_path(path: Path) -> Path:
    """Return the first free name: local.yaml.bak, local.yaml.bak2, …"""
    names = (path.with_name(f"{path.name}.bak{number or ''}") for number in (0, *range(2, 10_000)))
    return next(name for name in names if not name.exists())


def _format_difference(before: str, after: str) -> Iterator[str]:
    """Yield a unified diff with secrets masked."""
    yield from unified_diff(
        mask_settings_text(before),
        mask_settings_text(after),
        LOCAL_SETTINGS_PATH,
        "new",
        lineterm="",
        n=1,
    )
