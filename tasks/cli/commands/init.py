"""`doit init`: ask at most four questions, plan with the answers, and write config/local.yaml."""

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import TypeVar

from tasks.cli.commands import init_answers
from tasks.cli.commands.explain import show_decisions
from tasks.cli.decisions import list_decisions
from tasks.cli.session import open_profile
from tasks.core.errors import TorchyardError
from tasks.knowledge import Knowledge
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tasks.settings.layers_io import read_yaml_text
from tasks.settings.loaded_settings import mask_settings_text
from tasks.stages.install.target_interpreter_io import check_install_target as check_install
from tasks.system import screen
from tasks.system.files import write_atomic
from tasks.system.invocation import format_profile_argument
from tasks.system.output import print_report, print_warning

T = TypeVar("T")
LOCAL_SETTINGS_PATH = "config/local.yaml"
_QUESTION_INDENT, _INDENT = 3, "   "
_INTRODUCTION = (
    "Your answers are written to config/local.yaml, which overrides every profile. Press Enter for "
    "the default in brackets. To build a profile as it is, you do not need this: "
    "doit build profile=rtx5090."
)
_STRATEGY_MEANINGS = {
    "prebuilt": "the official wheel",
    "source": "compile PyTorch here: with a patch, your flags, or one arch",
    "existing": "the torch that your own Python already has",
}
_SPLATTING_HELP = (
    "diff-gaussian-rasterization and simple-knn, for Gaussian Splatting before October 2024; "
    "for later versions, enter the folders of its submodules, or diff-gaussian-rasterization-dr-aa"
)


def is_interactive() -> bool:
    """Return True if standard input and output are terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


@dataclass(frozen=True)
class _Interview:
    """The four questions. If `ask` is False, the options in `given` and defaults answer them."""

    given: Mapping[str, str]
    known: init_answers.InitFacts
    ask: bool

    def collect_answers(self) -> init_answers.Answers:
        """Return the default answers, replaced where an option or the user gave another answer."""
        text = _INTRODUCTION
        if not self.ask:
            unset = ", ".join(f"--{name}" for name, value in self.given.items() if not value)
            reason = "--yes was given" if is_interactive() else "there is no terminal"
            text = f"no question is asked because {reason}"
            text += f"; defaults are used for {unset}" if unset else ""
        screen.print_labeled_text("", text, 0)
        known, settings = self.known, self.known.settings
        answers = init_answers.build_default_answers(known)
        title, default = "1. Which GPUs do you build for?", ", ".join(known.default_gpus) or "cpu"
        parse_gpus = partial(init_answers.parse_gpus, knowledge=known.knowledge)
        gpus = self._answer("card", title, self._list_gpu_facts(), default, parse_gpus)
        if gpus is not None:
            answers = replace(answers, gpus=gpus)
        title, options = "2. Which torch do you want?", self._list_strategy_facts(answers)
        default, parse = settings.torch.strategy, init_answers.parse_strategy
        strategy = self._answer("way", title, options, default, parse)
        title, default = "3. Which CUDA extensions (comma-separated)?", "none"
        facts = [
            f"3dgs\t{_SPLATTING_HELP}",
            f"NAME\ta known extension: {', '.join(sorted(known.knowledge.extensions))}",
            "PLACE\tyour folder with a setup.py, or the URL of a git repository",
            "none\tonly torch",
        ]
        if configured := ", ".join(one.name for one in settings.extensions):
            default, facts = "profile", [f"profile\tthose of the profile: {configured}", *facts]
        parse_extensions = partial(
            init_answers.parse_extensions, knowledge=known.knowledge, root=known.root
        )
        extensions = self._answer("extensions", title, facts, default, parse_extensions)
        return self._ask_location(replace(answers, strategy=strategy, extensions=extensions))

    def _answer(
        self, option: str, title: str, facts: Iterable[str], default: str, parse: Callable[[str], T]
    ) -> T | None:
        """Return the parsed value of the option or the typed answer, or `None` for the default.

        The `facts` are shown below the title. If the default is empty, an answer is required.
        """
        if text := self.given[option]:
            try:
                return parse(text)
            except TorchyardError as error:
                error.location = f"--{option}"
                raise
        if not self.ask:
            return None
        print_report("")
        print_report(title)
        for fact in facts:
            word, tab, meaning = fact.rpartition("\t")
            indent = _QUESTION_INDENT + (11 if tab else 0)
            screen.print_labeled_text(_INDENT + word, meaning, indent)
        while (text := _read_answer(default)) not in {"", default} or not default:
            try:
                return parse(text)
            except TorchyardError as error:
                for line in filter(None, (error.message, error.hint and f"→ {error.hint}")):
                    screen.print_labeled_text("", line, _QUESTION_INDENT)
        return None

    def _list_gpu_facts(self) -> Iterator[str]:
        if visible := ", ".join(self.known.visible_gpus):
            yield f"found in this machine: {visible}"
        else:
            recent = ", ".join(self.known.list_recent_gpus())
            yield "no NVIDIA GPU was found in this machine"
            yield f"for example {recent}; other NVIDIA GPUs work, too"
        yield "enter names or capabilities, comma-separated, or cpu to build without CUDA"

    def _list_strategy_facts(self, answers: init_answers.Answers) -> Iterator[str]:
        known = self.known
        gpus = answers.gpus if answers.gpus is not None else known.settings.target.gpus
        strategies = known.list_strategies(gpus)
        chosen = next((one for one in strategies if one.chosen), None)
        current = f"now {chosen.strategy}: {chosen.why}" if chosen else "none fits: run doit doctor"
        yield f"auto\tchosen by the planner; {current}"
        for one in strategies:
            text = _STRATEGY_MEANINGS[one.strategy]
            if one.strategy != "existing":
                cost = init_answers.format_strategy_cost(one, known.disks)
                text += f" ({cost})" if cost else ""
                text += "" if one.possible else f"; not possible here: {one.why}"
            yield f"{one.strategy}\t{text}"

    def _ask_location(self, answers: init_answers.Answers) -> init_answers.Answers:
        title, default = "4. Where do you want to install torch?", "own"
        facts = [f"own\ta new environment in {self.known.build}"]
        own = Path(sys.prefix).resolve()  # the environment of doit itself
        active = dict.fromkeys(os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
        environments = [one for one in active if one and Path(one).resolve() != own]
        if is_existing := answers.strategy == "existing":
            title, default = "4. Which Python has the torch?", next(iter(environments), "")
            facts = []
        facts.append("PYTHON\tthe Python of your own environment (conda, a project's venv)")
        facts += [f"\tactive now: {place}" for place in environments]
        parse = partial(init_answers.apply_install_target, answers, known=self.known)
        answer = self._answer("into", title, facts, default, parse)
        if answer is None and is_existing and self.ask:
            return parse(default)
        return answer or answers


def _read_answer(default: str) -> str:
    """Return the typed text, which may be empty. Raises `TorchyardError` when the input ends."""
    from rich.prompt import Prompt  # noqa: PLC0415 - only in a terminal
    from rich.text import Text  # noqa: PLC0415

    shown = Text(f"{_INDENT}[{default}]" if default else _INDENT[1:])
    try:
        return Prompt.ask(shown, default="", show_default=False).strip()
    except EOFError:
        print_report("")
        message = "the input ended before the last answer; nothing was written"
        raise TorchyardError(message, hint="to take the defaults: doit init --yes") from None


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    subject: SelectedProfile,
    card: str = "",
    way: str = "",
    extensions: str = "",
    into: str = "",
    yes: bool = False,
    force: bool = False,
) -> None:
    """Ask the questions, plan with the answers, and write config/local.yaml.

    `card` (GPUs), `way` (strategy), `extensions` and `into` (install target) replace questions.
    Raises `TorchyardError` and writes nothing if an answer is invalid.
    """
    path, profile = Path(subject.project.settings_file), format_profile_argument(subject.name)
    ask = is_interactive() and not yes
    if ask and not force and path.exists():
        message = "this file already exists; no question was asked and nothing was written"
        hint = f"edit it, or replace it: doit init --force{profile}; the old file is kept as "
        hint += _choose_backup_path(path).name
        raise TorchyardError(message, location=LOCAL_SETTINGS_PATH, hint=hint)
    facts = init_answers.gather_init_facts(subject)
    given = {"card": card, "way": way, "extensions": extensions, "into": into}
    answers = _Interview(given, facts, ask).collect_answers()
    if answers.companions and not facts.has_companion_settings:
        answers = _add_companions(subject, answers, facts.knowledge)
    text = init_answers.format_local_yaml(answers)
    planned, problem = _plan_with_answers(subject, text, facts.knowledge)
    _write_local_settings(path, text, force=force)
    if planned:
        print_report("")
        show_decisions(list_decisions(planned))
    if problem:
        print_warning(f"the profile itself has an error, which {LOCAL_SETTINGS_PATH} did not cause")
        raise problem
    print_report(f"next: doit build{profile}")


def _add_companions(
    subject: SelectedProfile, answers: init_answers.Answers, knowledge: Knowledge
) -> init_answers.Answers:
    """Return the answers without the companion packages for which planning fails."""

    def plan_with(companions: tuple[str, ...]) -> None:
        candidate = replace(answers, companions=companions or None)
        _plan_with_answers(subject, init_answers.format_local_yaml(candidate), knowledge)

    accepted: tuple[str, ...] = ()
    plan_with(accepted)
    for name in answers.companions or ():
        try:
            plan_with((*accepted, name))
        except TorchyardError as error:
            risk = f"which may not work with the new torch: {error.message}"
            print_warning(f"{answers.into} has {name}, {risk}")
        else:
            accepted = (*accepted, name)
    if accepted:
        reason = f"found in {answers.into}; they will be replaced together with torch"
        print_report(f"also selected: {', '.join(accepted)} ({reason})")
    return replace(answers, companions=accepted or None)


def _plan_with_answers(
    subject: SelectedProfile, text: str, knowledge: Knowledge
) -> tuple[Profile | None, TorchyardError | None]:
    """Plan the profile with `text` as config/local.yaml. Return the profile or an error.

    An error that `text` does not cause is returned. Any other error is raised.
    """

    def open_with(local: str) -> Profile:
        opened = open_profile(subject.project, subject.name, os.environ, knowledge, local=local)
        own_prefixes = {sys.prefix, sys.base_prefix}
        check_install(opened.loaded.settings, opened.layout, opened.choice, own_prefixes)
        return opened

    try:
        return open_with(text), None
    except TorchyardError as error:
        try:
            open_with("")
        except TorchyardError as profile_error:
            if str(profile_error) == str(error):
                return None, profile_error
        hint = "; ".join(filter(None, (error.hint, f"{LOCAL_SETTINGS_PATH} was not written")))
        raise TorchyardError(error.message, location=error.location, hint=hint) from error


def _write_local_settings(path: Path, text: str, *, force: bool) -> None:
    """Write the file. Raises `TorchyardError` for a file with other text, unless `force` is set."""
    before = read_yaml_text(path, LOCAL_SETTINGS_PATH) if path.is_file() else None
    if before == text:
        print_report(f"{LOCAL_SETTINGS_PATH} already has these settings")
        return
    mode = 0o644 if before is None else stat.S_IMODE(path.stat().st_mode)
    if before is not None:
        texts = mask_settings_text(before), mask_settings_text(text)  # mask secrets
        for line in unified_diff(*texts, LOCAL_SETTINGS_PATH, "new", lineterm="", n=1):
            print_report(line)
        copy = _choose_backup_path(path)
        if not force:
            message = "this file already exists and was not changed"
            hint = f"to replace it: doit init --force; the old file is kept as {copy.name}"
            raise TorchyardError(message, location=LOCAL_SETTINGS_PATH, hint=hint)
        write_atomic(copy, path.read_bytes(), mode)
        print_report(f"the old file is now {copy.relative_to(path.parents[1]).as_posix()}")
    write_atomic(path.resolve(), text, mode)  # keep a symbolic link: write to its target
    print_report(f"wrote {LOCAL_SETTINGS_PATH}, which overrides every profile")


def _choose_backup_path(path: Path) -> Path:
    """Return the first unused path among local.yaml.bak, local.yaml.bak2, …"""
    names = (path.with_name(f"{path.name}.bak{number}") for number in ("", *range(2, 10_000)))
    return next(name for name in names if not name.exists())
