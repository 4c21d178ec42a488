"""An invalid command line is explained with a suggestion."""

from __future__ import annotations

import pytest

from tasks.cli.doit_overrides import (
    CommandLine,
    explain_rejected_option,
    explain_unknown_word,
    find_help_topic,
)
from tests.support.rows import each_row

PROFILES = ("mine", "quickstart", "rtx5090")
TASKS = ("build", "extensions:gsplat")


def line(*words: str) -> CommandLine:
    return CommandLine(words, TASKS, PROFILES)


@each_row(
    ("words", "stray", "message"),
    [
        ("biuld", "biuld", 'there is no task "biuld"; did you mean "build"?\n  → doit build;'),
        ("buidl profile=mine", "buidl", "→ doit build profile=mine;"),
        ("lits", "lits", "→ doit list;"),
        ("extensions:gsplatt", "extensions:gsplatt", "→ doit extensions:gsplat;"),
        ("build mine", "mine", '"mine" is a profile, not a task\n  → doit build profile=mine'),
        ("mine", "mine", "→ doit build profile=mine"),
        ("explain mine@cu128", "mine@cu128", "→ doit explain profile=mine@cu128"),
        (
            "build profile mine",
            "profile",
            "with profile=NAME\n  → doit build profile=mine",
        ),
        ("build profile = mine", "profile", "→ doit build profile=mine"),
        ("build profile", "profile", "→ doit build profile=NAME, NAME is one of: mine,"),
        ("build profile mnie", "profile", 'no profile "mnie"; did you mean "mine"?'),
        ("build rtx509", "rtx509", 'no task and no profile "rtx509"; did you mean "rtx5090"?'),
        (
            "build qqq",
            "qqq",
            "doit list; choose a profile: profile=NAME, one of mine,",
        ),
        ("diagnose b.log", "b.log", "→ show its arguments: doit help diagnose; list the tasks"),
    ],
)
def test_unknown_task_is_explained(words: str, stray: str, message: str) -> None:
    assert message in str(explain_unknown_word(line(*words.split()), stray))


@each_row(
    ("words", "name", "message"),
    [
        ("build --profile mine", "profile", "--profile is not an option: choose a profile with"),
        ("build --profile mine", "profile", "→ doit build profile=mine"),
        ("build --profile=mine", "profile", "→ doit build profile=mine"),
        ("--profile mine build", "profile", "→ doit build profile=mine"),
        ("--profile mine", "profile", "→ doit build profile=mine"),
        ("build -p mine", "p", "→ doit build profile=mine"),
        ("build -profile mine", "p", "→ doit build profile=mine"),
        ("build --profile", "profile", "→ doit build profile=NAME, NAME is one of"),
        ("-p build", "p", "doit has no option -p\n  → show what to type: doit help"),
        ("-h", "h", "doit has no option -h\n  → show what to type: doit help"),
        (
            "build -aj4",
            "j",
            "no option -aj4\n  → show its arguments: doit help build; to set a",
        ),
        (
            "init --cards x",
            "cards",
            '"--card"?\n  → show its arguments: doit help init',
        ),
    ],
)
def test_unknown_option_is_explained(words: str, name: str, message: str) -> None:
    result = f"option {name} not recognized"
    assert message in str(explain_rejected_option(line(*words.split()), name, result))


@pytest.mark.parametrize(
    ("words", "name", "page"),
    [
        ("init --help", "help", "init"),
        ("build profile=mine -h", "h", "build"),
        ("list --help", "help", "list"),
        ("-h", "h", ""),
        ("init --helpp", "helpp", None),
        ("build -ah", "h", None),
    ],
)
def test_help_option_shows_page_of_preceding_task(words: str, name: str, page: str | None) -> None:
    assert find_help_topic(line(*words.split()), name) == page


def test_option_without_value_shows_the_parser_error() -> None:
    message = str(
        explain_rejected_option(line("init", "--card"), "card", "option --card requires argument")
    )
    assert (
        message
        == "doit init: option --card requires argument\n  → show its arguments: doit help init"
    )


def test_argument_with_space_is_quoted() -> None:
    message = str(explain_unknown_word(line("int", "--card", "RTX 5090"), "int"))
    assert '→ doit init --card "RTX 5090";' in message
