"""Help texts of commands and stages, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommandOption:
    """`--name VALUE` of a command, or the flag `--name` if `value` is ""."""

    name: str
    meaning: str
    value: str = ""
    example: str = ""


@dataclass(frozen=True)
class CommandPage:
    """A command: one line for the list, details, and an example.

    `group` is its heading in the list, `takes` the positional argument.
    """

    name: str
    group: str
    doc: str
    more: str
    example: str
    options: tuple[CommandOption, ...] = ()
    takes: str = ""


@dataclass(frozen=True)
class StagePage:
    """A stage, described for readers who do not know the code.

    `settings` are dotted keys or sections. `log` is the file name in build/PROFILE/logs, "" without
    a log.
    """

    name: str
    doc: str
    does: str
    needs: str
    makes: str
    again: str
    settings: tuple[str, ...]
    log: str = ""
    alone: str = ""


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
            CommandOption("verbose", "print a line for each check that passed, too"),
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

# doit's commands that are useful to users, with what they do in torchyard
DOIT_COMMANDS = {
    "list": "the tasks in a line each; --status: how each stands, --all: each extension too",
    "help": "this; help NAME tells of one task",
    "clean": "withdraw claims and keep work: the next build looks at everything again",
    "info": "what doit knows of a task: files it reads and makes, whether it would run",
    "forget": "have doit forget that a task ran; clean does more",
    "tabcompletion": "completion for --shell bash or zsh (docs/terminal.md)",
}

# Overview of `doit help`: commands by the user's intention
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


STAGE_PAGES = (
    StagePage(
        "deps",
        "the build environment: venv, build tools, CUDA toolkit, compilers",
        does="Makes build/PROFILE/venv with the build tools, finds or fetches the CUDA toolkit "
        "that torch needs, and looks which compilers and which compiler cache are there.",
        needs="An interpreter, a C++ compiler where something is compiled, and a package index.",
        makes="deps.json (interpreter, CUDA_HOME, compilers), cache.json (the compiler "
        "cache) and toolchain.json (by which a compiler that was replaced is noticed).",
        again="The interpreter, the tools, the toolkit or the compilers that are asked for "
        "changed, or the environment is gone.",
        settings=("python", "toolkit", "build.env", "build.cache"),
        log="deps.log",
    ),
    StagePage(
        "source",
        "PyTorch's own tree, with its submodules",
        does="Clones or unpacks PyTorch, or takes a tree of yours as it is, puts patches on it, "
        "and says what exactly it holds. A tree of yours is never reset and never cleaned.",
        needs="git and a network; with source.path or a tarball of this machine neither.",
        makes="source.json: the commit, the submodules, a digest of edits that are not committed.",
        again="It looks each time, since you may have pulled or edited; where nothing moved, "
        "nothing after it runs.",
        settings=("source", "torch.version"),
        log="source.log",
    ),
    StagePage(
        "env",
        "one environment, for the stages and for your shell",
        does="Resolves every variable that a build gets, and writes it as scripts: env.sh, "
        "env.ps1 or env.bat to build by hand, run and run.ps1 to run a program with the "
        "torch that was built.",
        needs="deps; for a source build the tree, too.",
        makes="env.json and extension-env.json (each variable with its reason), env.*, run*.",
        again="A flag, a variable, the targets, the toolkit, a compiler or the tree changed, or a "
        "script is gone. The settings under runtime reach the scripts alone.",
        settings=("target", "build.flags", "build.env", "runtime"),
        log="env.log",
    ),
    StagePage(
        "compile",
        "compile PyTorch, in a folder that is kept",
        does="Has the tree's own build backend drive CMake and Ninja in a folder that is kept "
        "(the tree's build/, or build/PROFILE/compile), with the compiler cache and no more "
        "compilers than memory allows.",
        needs="source, deps and env.",
        makes="compile.json: the backend, the folders, one digest of the libraries that came out.",
        again="The tree, the tools or the environment changed. What there is to do is then Ninja's "
        "decision; an interruption costs what was under way.",
        settings=("build",),
        log="compile.log",
    ),
    StagePage(
        "wheel",
        "the torch itself: fetched or made, checked, installed",
        does="Fetches the official wheel, makes one of what was compiled, or looks at the torch "
        "that is there; reads its libraries and its machine code before it is installed.",
        needs="deps; for a source build source, env and compile, too.",
        makes="wheel.json, and surface.json: what extensions compile and link against. The wheel "
        "is kept in the wheelhouse.",
        again="What it is made of changed. A rebuild to the same content keeps the old wheel.",
        settings=("torch", "wheel"),
        log="wheel.log",
    ),
    StagePage(
        "extensions",
        "each CUDA extension, built against that torch",
        does="Builds a wheel of each extension from a copy of its source, reads the machine code "
        "out of it, installs and imports it. Those that do not wait for one another are at "
        "work at once.",
        needs="deps, env and wheel; what it comes `after`.",
        makes="extensions/NAME.json: the wheel, its libraries and their archs.",
        again="Its source, its settings, the compilers, the targets or torch's surface moved; "
        "one that is optional and whose host did not answer is tried each time.",
        settings=("extensions", "companions", "target"),
        log="extension-NAME.log",
        alone="doit extensions:NAME builds one of them",
    ),
    StagePage(
        "install",
        "torch and extensions, put into your own environment",
        does="Puts all that was built into the Python of install.into. It is looked at first; what "
        "gives way is kept, and comes back where what is new does not import.",
        needs="deps, env, wheel and extensions, and an environment that you may write to.",
        makes="install.json: what now lies there; build/PROFILE/replaced: what was there before.",
        again="A wheel changed, or what was put there does not lie there any more.",
        settings=("install.into",),
        log="install.log",
        alone="doit install runs it with what it needs; doit restore takes it back",
    ),
    StagePage(
        "validate",
        "the checks of what was built; without a card, those that need none",
        does="Looks at torch and the extensions from outside (files, machine code) and from inside "
        "(arithmetic, triton, NCCL, each extension). What cannot be looked at is not run, with the "
        "reason, and never passed. It builds nothing.",
        needs="A build; it waits for no stage.",
        makes="validate.json, and validate.xml (JUnit) for CI; exit 1 where a check failed.",
        again="It runs whenever it is asked for.",
        settings=("validation", "extensions"),
        log="validate.log",
    ),
)

BUILD_PAGE = StagePage(
    "build",
    "bring everything of this profile up to date; doit by itself does the same",
    does="Runs the stages in their order: deps, source, env, compile, wheel, extensions, install. "
    "Each has an up-to-date check of its own, so a second run does only what changed.",
    needs="What doit doctor looks at; a build looks at the quick part first and stops at problems.",
    makes="build/PROFILE, wheels in wheelhouse/, and a record of the run.",
    again="Each stage tells why it runs; doit explain tells it before anything runs.",
    settings=("target", "torch", "extensions"),
    alone="doit by itself does the same; doit -a runs every stage anew",
)
