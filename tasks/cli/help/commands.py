"""The commands beside the stages, by what they are for."""

from __future__ import annotations

from tasks.cli.help.page import CommandOption, CommandPage

_JSON_OPTION = CommandOption("json", "write it to FILE as JSON too", "FILE")
_YES_OPTION = CommandOption("yes", "do it")
BEGIN, LOOK, FAILED, SHARE, UNDO, DEVELOPMENT = (
    *("begin", "look", "when it fails", "share"),
    *("undo", "torchyard itself"),
)
COMMAND_GROUPS = (BEGIN, LOOK, FAILED, SHARE, UNDO, DEVELOPMENT)

COMMAND_PAGES = (
    CommandPage(
        "init",
        BEGIN,
        "settings of your own by at most four questions: card, way, extensions, where",
        "It writes config/local.yaml, which counts in every profile, before what the profile says. "
        "A profile as it is, doit build profile=rtx5090, needs none of it. "
        "Return takes what stands in brackets. What is given as an option is not asked, and "
        "without a terminal nothing is. The answers are planned before anything is written; a "
        "file that is there already is replaced with --force alone, and kept beside the new one.",
        'doit init --card "RTX 5090" --extensions 3dgs --into ~/miniconda3/envs/gs/bin/python',
        (
            CommandOption(
                "card", "names or capabilities with commas between, cpu for none", "CARDS"
            ),
            CommandOption("way", "auto, prebuilt, source or existing", "WAY"),
            CommandOption(
                "extensions", "known names, folders, git URLs, 3dgs for its two, none", "NAMES"
            ),
            CommandOption(
                "into", "the Python that gets all of it; with existing, that has torch", "PYTHON"
            ),
            CommandOption("yes", "ask nothing"),
            CommandOption("force", "replace config/local.yaml, and keep it beside the new one"),
        ),
    ),
    CommandPage(
        "doctor",
        BEGIN,
        "what could stop this profile here, and the command that mends it",
        "It changes nothing but with --accept, and works with a broken profile. A build looks at "
        "the quick part of it first; doctor.ignore overrides a check.",
        "doit doctor --json doctor.json",
        (
            _JSON_OPTION,
            CommandOption("accept", "plan from the cards and toolkits that are here now"),
        ),
    ),
    CommandPage(
        "explain",
        LOOK,
        "what doit build would do now, stage by stage, why, and how long it takes",
        "It changes nothing. A stage runs, may run (where what it reads comes out otherwise), or "
        "is up to date; for compile it counts the objects.",
        "doit explain --json plan.json",
        (_JSON_OPTION,),
    ),
    CommandPage(
        "settings",
        LOOK,
        "every value, and the file and line that it is from",
        "default.yaml, the profile, config/local.yaml, TORCHYARD__SECTION__KEY: the later one "
        "counts. It works with a broken profile.",
        "doit settings",
        (_JSON_OPTION,),
    ),
    CommandPage(
        "history",
        LOOK,
        "the runs of this profile: when, what was asked, what came of it, what was rebuilt",
        "50 runs are kept, in build/PROFILE/records/runs.",
        "doit history",
        (_JSON_OPTION,),
    ),
    CommandPage(
        "report",
        LOOK,
        "the last run on one HTML page, for Perfetto, and as text for a bug report",
        "The page needs no network, and the text has no name, home or token of yours in it.",
        "doit report --out report/",
        (
            CommandOption("run", "the run of that name; doit history lists them", "NAME"),
            CommandOption("against", "beside that run", "NAME"),
            CommandOption("out", "write it into FOLDER", "FOLDER"),
        ),
    ),
    CommandPage(
        "matrix",
        LOOK,
        "the builds of this profile's matrix, and how each stands",
        "Each combination is a profile of its own, NAME@COMBINATION, for every task.",
        "doit matrix --workflow github --out .github/workflows/torch.yml",
        (
            CommandOption("build", "build what is not up to date, each by itself, and publish"),
            CommandOption("workflow", "write it for github or slurm", "KIND"),
            CommandOption("out", "write that to FILE", "FILE"),
            _JSON_OPTION,
        ),
    ),
    CommandPage(
        "diagnose",
        FAILED,
        "why the last build failed, or what a log tells: the cause, what to do",
        "The first real error, the cause where it is known, the remedy, and where the whole log "
        "is. It works with a broken profile, and with a log from anywhere.",
        "doit diagnose --log ~/pip.log",
        (CommandOption("log", "read FILE, /dev/stdin too", "FILE"), _JSON_OPTION),
    ),
    CommandPage(
        "publish",
        SHARE,
        "put the wheels on a package index that pip and uv can use",
        "A published file never changes; what is there already costs a look.",
        "doit publish --dest me@server:/srv/wheels",
        (
            CommandOption(
                "dest", "a folder, user@host:path, or a command with {index} in it", "PLACE"
            ),
            CommandOption("check", "read all that is on it, and change nothing"),
            CommandOption(
                "yank", "keep the wheel NAME from who does not ask for exactly it", "NAME"
            ),
            CommandOption("because", "why it is yanked", "TEXT"),
            CommandOption("unyank", "give the yanked wheel NAME to everybody again", "NAME"),
        ),
    ),
    CommandPage(
        "lock",
        SHARE,
        "write into torchyard.lock what this was built of",
        "Commits, files, and packages by their digests; a build takes exactly that again.",
        "doit lock --check",
        (
            CommandOption("check", "tell in what lock and build differ, exit 1 where they do"),
            CommandOption(
                "update", "lock the commits that the refs stand for now, for the next build"
            ),
        ),
    ),
    CommandPage(
        "bundle",
        SHARE,
        "collect all that this profile is built of, for a machine without a network",
        "There, offline: PATH in config/local.yaml builds from it.",
        "doit bundle --dest gs.tar",
        (CommandOption("dest", "a folder, or FILE.tar", "PATH"),),
    ),
    CommandPage(
        "verify",
        SHARE,
        "a wheel against what is recorded of it, and what it declares to need",
        "RECORD, SBOM, the statement beside it, and this profile's manifests; exit 1 where a check "
        "failed.",
        "doit verify wheelhouse/NAME.whl",
        (CommandOption("wheel", "look at FILE", "FILE"),),
        takes="WHEEL",
    ),
    CommandPage(
        "restore",
        UNDO,
        "put back what install.into replaced in your own environment",
        "Without --yes it shows what that is. No network is needed, and the settings may have "
        "moved.",
        "doit restore --yes",
        (_YES_OPTION,),
    ),
    CommandPage(
        "purge",
        UNDO,
        "remove what this profile built",
        "Without --yes it shows what would go. Only folders that torchyard made are removed, and "
        "sources in which somebody worked stay.",
        "doit purge --yes",
        (_YES_OPTION,),
    ),
    CommandPage(
        "check",
        DEVELOPMENT,
        "lint, types and unit tests, and the site where mkdocs is installed",
        "For work on torchyard; it needs pip install -e '.[test]'.",
        "doit check",
    ),
)

# What doit brings itself and a person may want, with what it does here
DOIT_COMMANDS = {
    "list": "the tasks in a line each; --status: how each stands, --all: each extension too",
    "help": "this; help NAME tells of one task",
    "clean": "withdraw claims and keep work: the next build looks at everything again",
    "info": "what doit knows of a task: files it reads and makes, whether it would run",
    "forget": "have doit forget that a task ran; clean does more",
    "tabcompletion": "completion for --shell bash or zsh (docs/terminal.md)",
}

# `doit help`: by what a person is about to do
TYPICAL_STEPS = (
    (
        "the first build",
        (
            ("doit init", "your card, extensions, environment; a profile as it is needs none"),
            ("doit doctor", "what could stop it here, and the command that mends it"),
            ("doit build", "all of it: torch, and the extensions compiled for your card"),
            ("doit validate", "prove it, without a card as far as that goes"),
            ("build/PROFILE/run python …", "use it: any program, with the torch that was built"),
        ),
    ),
    (
        "after a pull, an edit, another setting",
        (
            ("doit explain", "what would run now, why, and how long"),
            ("doit build", "what changed, and nothing else"),
            ("doit history", "what earlier runs did"),
        ),
    ),
    (
        "when it fails",
        (
            ("doit diagnose", "the first real error, the cause, what to do"),
            ("doit settings", "every value and where it is from"),
            ("doit report", "the last run on a page, and as text for a bug report"),
            ("doit restore", "back to the torch that your environment had"),
        ),
    ),
    (
        "share",
        (
            ("doit publish", "the wheels on a package index"),
            ("doit lock", "what it was built of, to build the same again"),
            ("doit bundle", "all of it for a machine without a network"),
            ("doit matrix", "several versions of one profile"),
        ),
    ),
)
