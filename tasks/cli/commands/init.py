"""`doit init`: ask at most four questions, plan with the answers, and write the settings file.

In a project, the default answers are what its files and environments suggest.
"""

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
from tasks.cli.commands.init_draft import Draft, select_profile, suggest_own_environment
from tasks.cli.decisions import list_decisions
from tasks.cli.project_scan.git_submodules import FETCH_COMMAND
from tasks.core.errors import TorchyardError
from tasks.core.project import PROJECT_FILE, PROJECT_LOCAL_FILE, Project
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tasks.settings.layers_io import read_yaml_text
from tasks.settings.loaded_settings import mask_settings_text
from tasks.system import screen
from tasks.system.files import write_atomic
from tasks.system.invocation import adapt_message
from tasks.system.output import print_report, print_warning

T = TypeVar("T")
_QUESTION_INDENT, _INDENT = 3, "   "
_INTRODUCTION = (
    "Your answers are written to config/local.yaml, which overrides every profile. Press Enter for "
    "the default in brackets. To build a profile as it is, you do not need this: "
    "doit build profile=rtx5090."
)
_PROJECT_INTRODUCTION = (
    "Press Enter for the default in brackets. You see torchyard.yaml before it is written."
)
_NO_WORDS = {"n", "no"}
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
        known = self.known
        text = _INTRODUCTION if known.is_checkout else _PROJECT_INTRODUCTION
        if not self.ask:
            unset = ", ".join(f"--{name}" for name, value in self.given.items() if not value)
            reason = "--yes was given" if is_interactive() else "there is no terminal"
            text = f"no question is asked because {reason}"
            text += f"; defaults are used for {unset}" if unset else ""
        screen.print_labeled_text("", text, 0)
        settings = known.settings
        answers = init_answers.build_default_answers(known)
        title, default = "1. Which GPUs do you build for?", ", ".join(known.default_gpus) or "cpu"
        parse_gpus = partial(init_answers.parse_gpus, knowledge=known.knowledge)
        gpus = self._answer("card", title, self._list_gpu_facts(), default, parse_gpus)
        if gpus is not None:
            answers = replace(answers, gpus=gpus)
        title, options = "2. Which torch do you want?", self._list_strategy_facts(answers)
        default, parse = settings.torch.strategy, init_answers.parse_strategy
        strategy = self._answer("way", title, options, default, parse)
        answers = replace(answers, strategy=strategy)
        if (extensions := self._ask_extensions()) is not None:
            answers = replace(answers, extensions=extensions)
        return self._ask_location(answers)

    def _ask_extensions(self) -> tuple[init_answers.ExtensionEntry, ...] | None:
        known = self.known
        title, default = "3. Which CUDA extensions (comma-separated)?", "none"
        found = ", ".join(one.name for one in known.contents.extensions)
        facts = [
            *([] if found else [f"3dgs\t{_SPLATTING_HELP}"]),
            f"NAME\ta known extension: {', '.join(sorted(known.knowledge.extensions))}",
            "PLACE\tyour folder with a setup.py, or the URL of a git repository",
            "none\tonly torch",
        ]
        if configured := ", ".join(one.name for one in known.settings.extensions):
            default, facts = "profile", [f"profile\tthose of the profile: {configured}", *facts]
        if found:
            default = init_answers.FOUND_EXTENSIONS
            facts = [f"{default}\tthose in this project: {found}", *facts]
        parse_extensions = partial(
            init_answers.parse_extensions,
            knowledge=known.knowledge,
            root=known.root,
            found=known.extensions,
        )
        return self._answer("extensions", title, facts, default, parse_extensions)

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
        own_word, proposed = init_answers.OWN_ENVIRONMENT, self.known.proposed_python
        title, default = "4. Where do you want to install torch?", proposed or own_word
        facts = [f"{own_word}\ta new environment in {self.known.build}"]
        environments = self._list_environments()
        if is_existing := answers.strategy == "existing":
            title = "4. Which Python has the torch?"
            default, facts = proposed or next(iter(environments), ""), []
        facts.append("PYTHON\tthe Python of your own environment (conda, a project's venv)")
        facts += [f"\t{line}" for line in environments.values()]
        parse = partial(init_answers.apply_install_target, answers, known=self.known)
        answer = self._answer("into", title, facts, default, parse)
        if answer is None and (proposed or (is_existing and self.ask)):
            return parse(default)
        return answer or answers

    def _list_environments(self) -> dict[str, str]:
        """Return a line for each environment that can be the user's, by its path."""
        if not self.known.is_checkout:
            return {one.python: str(one) for one in self.known.contents.environments}
        own = Path(sys.prefix).resolve()  # the environment of doit itself
        active = dict.fromkeys(os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
        others = (one for one in active if one and Path(one).resolve() != own)
        return {place: f"active now: {place}" for place in others}


def _read_answer(default: str) -> str:
    """Return the typed text, which may be empty. Raises `TorchyardError` when the input ends."""
    return _read_line(f"{_INDENT}[{default}]" if default else _INDENT[1:])


def _read_line(shown: str) -> str:
    from rich.prompt import Prompt  # noqa: PLC0415 - only in a terminal
    from rich.text import Text  # noqa: PLC0415

    try:
        return Prompt.ask(Text(shown), default="", show_default=False).strip()
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
    dry_run: bool = False,
) -> None:
    """Ask the questions, plan with the answers, and write the settings file.

    `card` (GPUs), `way` (strategy), `extensions` and `into` (install target) replace questions.
    With `dry_run`, nothing is written. Raises `TorchyardError` and writes nothing if an answer is
    invalid.
    """
    subject, argument = select_profile(subject)
    path = Path(subject.project.settings_file)
    ask = is_interactive() and not yes
    if ask and not dry_run and not force:
        _require_no_file(path, subject.project.settings_name, argument)
    facts = init_answers.gather_init_facts(subject)
    if not facts.is_checkout:
        _show_findings(facts, ask=ask)
    given = {"card": card, "way": way, "extensions": extensions, "into": into}
    answers = _Interview(given, facts, ask).collect_answers()
    draft = Draft(subject, facts)
    with suggest_own_environment(is_proposed=bool(answers.into and not into)):
        answers = draft.add_requirements(answers)
        planned, problem = draft.plan(answers)
    text, is_shown = draft.format_settings(answers), dry_run or not facts.is_checkout
    if is_shown:
        _show_draft(subject, text, planned)
    should_write = not dry_run and (not is_shown or not ask or _confirm(f"Write {path.name}?"))
    if should_write:
        _write_settings(subject.project, text, force=force)
    else:
        print_report("nothing was written")
    if planned and not is_shown:
        print_report("")
        show_decisions(list_decisions(planned))
    if problem:
        name = subject.project.settings_name
        print_warning(f"the profile itself has an error, which {name} did not cause")
        raise problem
    if should_write:
        _show_next_steps(facts, answers, argument)


def _require_no_file(path: Path, name: str, argument: str) -> None:
    if path.exists():
        message = "this file already exists; no question was asked and nothing was written"
        hint = f"edit it, or replace it: doit init --force{argument}; the old file is kept as "
        hint += _choose_backup_path(path).name
        raise TorchyardError(message, location=name, hint=hint)


def _show_findings(facts: init_answers.InitFacts, *, ask: bool) -> None:
    """Print what was found in the project and, if no question says so, the GPUs."""
    lines = [*facts.contents.describe()]
    if not ask:
        gpus = ", ".join(facts.visible_gpus)
        lines.append((bool(gpus), f"in this machine: {gpus}" if gpus else "no NVIDIA GPU here"))
    for is_found, line in lines:
        screen.print_labeled_text("found " if is_found else "", line, 6 if is_found else 0)
    print_report("")


def _show_draft(subject: SelectedProfile, text: str, planned: Profile | None) -> None:
    """Print the text of the settings file, and the decisions that follow from it."""
    print_report("")
    print_report(f"{subject.project.settings_name}:")
    for line in mask_settings_text(text):
        print_report(f"{_INDENT}{line}".rstrip())
    print_report("")
    if planned:
        show_decisions(list_decisions(planned))


def _confirm(question: str) -> bool:
    """Return True if the user presses Enter or answers yes."""
    return _read_line(f"{question} [Y/n]").lower() not in _NO_WORDS


def _show_next_steps(
    facts: init_answers.InitFacts, answers: init_answers.Answers, argument: str
) -> None:
    if not facts.is_checkout:
        text = "commit torchyard.yaml; .torchyard has a .gitignore of its own"
        paths = {"python": answers.python, "install.into": answers.into}
        local = [key for key, path in paths.items() if Path(path).expanduser().is_absolute()]
        if local:
            text = (
                f"{' and '.join(local)}: a path of this machine. Move it to {PROJECT_LOCAL_FILE}, "
            )
            text += f"add that file to .gitignore, and commit {PROJECT_FILE}"
        screen.print_labeled_text("", text, 0)
    is_incomplete = answers.extensions and facts.contents.needs_submodules
    fetch = f"{FETCH_COMMAND} && " if is_incomplete else ""
    print_report(f"next: {fetch}{adapt_message('doit build')}{argument}")


def _write_settings(project: Project, text: str, *, force: bool) -> None:
    """Write the file. Raises `TorchyardError` for a file with other text, unless `force` is set."""
    path, name = Path(project.settings_file), project.settings_name
    before = read_yaml_text(path, name) if path.is_file() else None
    if before == text:
        print_report(f"{name} already has these settings")
        return
    mode = 0o644 if before is None else stat.S_IMODE(path.stat().st_mode)
    if before is not None:
        texts = mask_settings_text(before), mask_settings_text(text)  # mask secrets
        for line in unified_diff(*texts, name, "new", lineterm="", n=1):
            print_report(line)
        copy = _choose_backup_path(path)
        if not force:
            message = "this file already exists and was not changed"
            hint = f"to replace it: doit init --force; the old file is kept as {copy.name}"
            raise TorchyardError(message, location=name, hint=hint)
        write_atomic(copy, path.read_bytes(), mode)
        print_report(f"the old file is now {copy.relative_to(project.root).as_posix()}")
    write_atomic(path.resolve(), text, mode)  # keep a symbolic link: write to its target
    meaning = ", which overrides every profile" if project.is_checkout else ""
    print_report(f"wrote {name}{meaning}")


def _choose_backup_path(path: Path) -> Path:
    """Return the first unused path among local.yaml.bak, local.yaml.bak2, …"""
    names = (path.with_name(f"{path.name}.bak{number}") for number in ("", *range(2, 10_000)))
    return next(name for name in names if not name.exists())
