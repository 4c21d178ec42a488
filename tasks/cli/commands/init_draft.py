"""Choose the settings that `doit init` writes: plan with the answers, and omit what fails."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.cli.commands import init_answers
from tasks.cli.session import open_profile
from tasks.core.errors import TorchyardError
from tasks.core.project import BUILT_IN_PROFILE
from tasks.lock.opened_profile_io import Profile, SelectedProfile
from tasks.settings.layers_io import PROJECT_PROFILE
from tasks.stages.install.target_interpreter_io import check_install_target as check_install
from tasks.system import screen
from tasks.system.invocation import format_profile_argument
from tasks.system.output import print_report, print_warning


def select_profile(subject: SelectedProfile) -> tuple[SelectedProfile, str]:
    """Return the profile to plan, and its argument in later commands.

    In a project, the file that is written has the profile `default`, or names a built-in profile.
    """
    project = subject.project
    if project.is_checkout:
        return subject, format_profile_argument(subject.name)
    is_built_in = Path(project.config, "profiles", f"{subject.name}.yaml").is_file()
    is_chosen = is_built_in and subject.name != BUILT_IN_PROFILE
    name = subject.name if is_chosen else PROJECT_PROFILE
    return SelectedProfile(project, name, None), ""


@contextmanager
def suggest_own_environment(*, is_proposed: bool) -> Iterator[None]:
    """Add to an error how to build without the environment that was proposed."""
    try:
        yield
    except TorchyardError as error:
        if is_proposed:
            error.hint = f"{error.hint}; or use a new environment: doit init --into own"
        raise


@dataclass(frozen=True)
class Draft:
    """The settings file of a profile before it is written."""

    subject: SelectedProfile
    facts: init_answers.InitFacts

    def format_settings(self, answers: init_answers.Answers) -> str:
        """Return the text of the settings file."""
        if self.facts.is_checkout:
            return init_answers.format_local_yaml(answers)
        name = self.subject.name
        answers = replace(answers, profile="" if name == PROJECT_PROFILE else name)
        return init_answers.format_project_yaml(answers)

    def add_requirements(self, answers: init_answers.Answers) -> init_answers.Answers:
        """Return the answers with the torch and the companions that the project requires.

        Those for which planning fails are reported and omitted.
        """
        answers = self._add_required_torch(answers)
        sources = dict.fromkeys(answers.companions or (), answers.into)
        if self.facts.has_companion_settings:
            return answers
        if answers.strategy != "existing":
            sources = {**self.facts.contents.requirements.companions, **sources}
        return self._add_companions(answers, sources) if sources else answers

    def _add_required_torch(self, answers: init_answers.Answers) -> init_answers.Answers:
        required = self.facts.contents.requirements.find_torch()
        if required is None or answers.strategy not in {None, "auto", "prebuilt"}:
            return answers
        source = f"{required.file} requires {required}"
        if not required.is_release:
            with suppress(TorchyardError):  # reported when the final answers are planned
                planned, _ = self.plan(replace(answers, companions=None))
                if planned and not required.allows(planned.choice.torch):
                    print_report(f"{source}; torch {planned.choice.torch} is used instead")
            return answers
        pinned = replace(answers, torch_version=required.version)
        try:
            self.plan(replace(pinned, strategy="prebuilt", companions=None))
        except TorchyardError as error:
            text = f"{source}, which is not used: {error.message}"
            screen.print_labeled_text("", text, 0)
            return answers
        return pinned

    def _add_companions(
        self, answers: init_answers.Answers, sources: Mapping[str, str]
    ) -> init_answers.Answers:
        """Return the answers with the companion packages for which planning succeeds."""
        accepted: tuple[str, ...] = ()
        self.plan(replace(answers, companions=None))
        for name, source in sources.items():
            try:
                self.plan(replace(answers, companions=(*accepted, name)))
            except TorchyardError as error:
                verb = "has" if source == answers.into else "names"
                risk = f"which may not work with the new torch: {error.message}"
                print_warning(f"{source} {verb} {name}, {risk}")
            else:
                accepted = (*accepted, name)
        for source in dict.fromkeys(map(sources.__getitem__, accepted)):
            names = ", ".join(name for name in accepted if sources[name] == source)
            reason = f"named in {source}"
            if source == answers.into:
                reason = f"found in {source}; they will be replaced together with torch"
            print_report(f"also selected: {names} ({reason})")
        return replace(answers, companions=accepted or None)

    def plan(self, answers: init_answers.Answers) -> tuple[Profile | None, TorchyardError | None]:
        """Plan the profile with these answers. Return the profile or an error.

        An error that the answers do not cause is returned. Any other error is raised.
        """
        try:
            return self._open_profile(self.format_settings(answers)), None
        except TorchyardError as error:
            try:
                self._open_profile("")
            except TorchyardError as profile_error:
                if str(profile_error) == str(error):
                    return None, profile_error
            name = self.subject.project.settings_name
            hint = "; ".join(filter(None, (error.hint, f"{name} was not written")))
            raise TorchyardError(error.message, location=error.location, hint=hint) from error

    def _open_profile(self, local: str) -> Profile:
        subject, knowledge = self.subject, self.facts.knowledge
        opened = open_profile(subject.project, subject.name, os.environ, knowledge, local=local)
        own_prefixes = {sys.prefix, sys.base_prefix}
        check_install(opened.loaded.settings, opened.layout, opened.choice, own_prefixes)
        return opened
