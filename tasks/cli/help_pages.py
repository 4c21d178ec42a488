"""Help texts of commands and stages, as data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """A command-line option. `value` is a placeholder such as FILE, or "" for a flag."""

    name: str
    meaning: str
    value: str = ""


@dataclass(frozen=True)
class CommandPage:
    """The help page of a command.

    `doit list` shows `doc` below the heading `group`; `more` is the text of the page. `takes` is
    the name of the positional argument, or "" if the command has none. `choices` are its values,
    empty if any value is possible.
    """

    name: str
    group: str
    doc: str
    more: str
    example: str
    options: tuple[Option, ...] = ()
    takes: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class StagePage:
    """The help page of a stage.

    `makes` describes the outputs. `again` says when the stage is repeated. `settings` are keys
    (`build.jobs`) or sections. `start` is the command for the stage (default: `doit STAGE`).
    """

    name: str
    doc: str
    does: str
    needs: str
    makes: str
    again: str
    settings: tuple[str, ...]
    start: str = ""


_JSON_OPTION = Option("json", "also write the result to FILE as JSON", "FILE")
COMMAND_GROUPS = ("begin", "look", "when it fails", "share", "undo", "torchyard itself")
BEGIN, LOOK, FAILED, SHARE, UNDO, DEVELOPMENT = COMMAND_GROUPS


def _create_page(  # noqa: PLR0913 - one parameter per field
    name: str,
    group: str,
    doc: str,
    more: str,
    example: str,
    *options: Option,
    takes: str = "",
    choices: tuple[str, ...] = (),
) -> CommandPage:
    return CommandPage(name, group, doc, more, example, options, takes, choices)


COMMAND_PAGES = (
    _create_page(
        "init",
        BEGIN,
        "answer four questions (GPU, strategy, extensions, location) to write your settings",
        "Writes config/local.yaml, whose values override those of a built-in profile. You do not "
        "need it to build a profile as it is: doit build profile=rtx5090. In a project, it "
        "proposes the CUDA extensions, the environment and the companion packages that it finds "
        "there. Enter selects the default in brackets. An option replaces its question; without a "
        "terminal, no question is asked. The answers are checked before the file is written. "
        "Only --force replaces an existing file, and keeps a backup beside it.",
        'doit init --card "RTX 5090" --extensions 3dgs --into ~/miniconda3/envs/gs/bin/python',
        Option("card", "GPU names or capabilities, comma-separated, or cpu", "CARDS"),
        Option("way", "auto, prebuilt, source or existing", "WAY"),
        Option("extensions", "known names, folders, git URLs, 3dgs, found, or none", "NAMES"),
        Option("into", "install into this Python, or own; with existing, use its torch", "PYTHON"),
        Option("yes", "ask no questions and take the defaults"),
        Option("force", "replace config/local.yaml and keep a backup"),
        Option("dry-run", "show the file and what follows from it, and write nothing"),
    ),
    _create_page(
        "doctor",
        BEGIN,
        "check what could stop a build here; each problem comes with the command that fixes it",
        "Changes nothing, unless you pass --accept. Works with a broken profile. Every build runs "
        "the quick checks first. To ignore a check, add its name to doctor.ignore.",
        "doit doctor --json doctor.json",
        _JSON_OPTION,
        Option("accept", "plan with the GPUs and CUDA toolkits that are here now"),
        Option("verbose", "list the checks that passed, too"),
    ),
    _create_page(
        "explain",
        LOOK,
        "show what doit build would do for each stage, why, and how long it takes",
        "Changes nothing. A stage runs, is up to date, or may run, if an earlier stage changes its "
        "inputs. For compile, the number of objects to compile is shown.",
        "doit explain --json plan.json",
        _JSON_OPTION,
    ),
    _create_page(
        "settings",
        LOOK,
        "show every value, and the file and line that set it",
        "Later sources override earlier ones: default.yaml, a built-in profile, your settings for "
        "all projects, config/local.yaml, TORCHYARD__SECTION__KEY. Works with a broken profile.",
        "doit settings",
        _JSON_OPTION,
    ),
    _create_page(
        "history",
        LOOK,
        "list the runs of this profile: time, command, result, and what was rebuilt",
        "The last 50 runs are kept in build/PROFILE/records/runs.",
        "doit history",
        _JSON_OPTION,
    ),
    _create_page(
        "report",
        LOOK,
        "write the last run as an HTML page, a Perfetto trace, and text for a bug report",
        "The page works offline. User names, host names, home folders and tokens are removed.",
        "doit report --out report/",
        Option("run", "report the run NAME; doit history lists the names", "NAME"),
        Option("against", "compare with the run NAME", "NAME"),
        Option("out", "write the files into FOLDER", "FOLDER"),
    ),
    _create_page(
        "matrix",
        LOOK,
        "list the builds of this profile's matrix and their states",
        "To build a single combination, run doit build profile=NAME@COMBINATION.",
        "doit matrix --workflow github --out .github/workflows/torch.yml",
        Option("build", "build and publish all that are not up to date, one by one"),
        Option("workflow", "print a workflow; KIND is github, slurm or docker", "KIND"),
        Option("github", "print the workflow for GitHub Actions, as --workflow github"),
        Option("out", "write the workflow to FILE", "FILE"),
        _JSON_OPTION,
    ),
    _create_page(
        "diagnose",
        FAILED,
        "show why the last build failed, or explain any log: cause and remedy",
        "Shows the first real error, its cause if it is known, what to do, and the path of the "
        "whole log. Works with a broken profile, and with logs of other programs.",
        "doit diagnose --log ~/pip.log",
        Option("log", "read FILE; /dev/stdin works, too", "FILE"),
        _JSON_OPTION,
    ),
    _create_page(
        "publish",
        SHARE,
        "put the wheels on a package index for pip and uv",
        "Published files never change. Wheels that are already on the index are only checked.",
        "doit publish --dest me@server:/srv/wheels",
        Option("dest", "a folder, user@host:path, or a command with {index}", "PLACE"),
        Option("check", "check everything on the index and change nothing"),
        Option("yank", "hide wheel NAME from pip unless its version is pinned", "NAME"),
        Option("because", "the reason for the yank", "TEXT"),
        Option("unyank", "make the yanked wheel NAME available again", "NAME"),
    ),
    _create_page(
        "lock",
        SHARE,
        "write to torchyard.lock what this profile was built from",
        "Locks commits, files and package digests. Later builds use exactly these.",
        "doit lock --check",
        Option("check", "show where lock and build differ; exit 1 if they do"),
        Option("update", "lock the commits that the refs point to now; then build"),
    ),
    _create_page(
        "bundle",
        SHARE,
        "collect everything that this profile is built from, for a machine without a network",
        "On that machine, set offline: PATH in config/local.yaml to build from the bundle.",
        "doit bundle --dest gs.tar",
        Option("dest", "a folder, or FILE.tar", "PATH"),
    ),
    _create_page(
        "verify",
        SHARE,
        "check a wheel against its records and its declared requirements",
        "Checks RECORD, the SBOM, the statement beside the wheel, and the manifests of this "
        "profile. Exits with 1 if a check fails.",
        "doit verify wheelhouse/NAME.whl",
        Option("wheel", "check FILE", "FILE"),
        takes="WHEEL",
    ),
    _create_page(
        "restore",
        UNDO,
        "restore the packages that install.into replaced in your environment",
        "Without --yes, it shows what would be restored. It needs no network, and works after "
        "the settings have changed.",
        "doit restore --yes",
        Option("yes", "restore the packages"),
    ),
    _create_page(
        "purge",
        UNDO,
        "remove everything that this profile built",
        "Without --yes, it shows what would be removed. It removes only folders that torchyard "
        "made, and keeps source trees with changes of yours.",
        "doit purge --yes",
        Option("yes", "remove the files"),
    ),
    _create_page(
        "cache",
        UNDO,
        "show or shrink what all your projects share: git clones, torch wheels",
        "info, the default, shows the size of each entry, and of the caches of uv, ccache and "
        "sccache. prune removes entries that were not used for 30 days; without --yes, it shows "
        "what would be removed. Projects keep their own clones and wheels. Works with a broken "
        "profile. TORCHYARD_CACHE_DIR moves the cache.",
        "doit cache prune --days 7 --yes",
        Option("days", "remove entries that were not used for N days", "N"),
        Option("all", "remove all entries"),
        Option("uv", "also run uv cache prune"),
        Option("yes", "remove the entries"),
        takes="ACTION",
        choices=("info", "prune"),
    ),
    _create_page(
        "check",
        DEVELOPMENT,
        "lint, type-check and test torchyard, and build its site if mkdocs is installed",
        "For the development of torchyard. Requires pip install -e '.[test]'.",
        "doit check",
    ),
    _create_page(
        "refresh",
        DEVELOPMENT,
        "read all releases on a package index into config/knowledge/read",
        "For the maintainers of torchyard, on Linux. Reads the wheels of torch and its companions, "
        "and runs the compilers of the CUDA packages. Files that were read before are not read "
        "again. Prints each changed value, and the conditions to review. Exits with 1 if a value "
        "contradicts a curated one.",
        "doit refresh --index https://pypi.org/simple",
        Option("index", "read the package index at URL; default: that of uv or pip", "URL"),
        Option("check", "only report the differences, and write no file"),
        Option("names", "read only the names in the headers and modules of each torch release"),
        Option(
            "pythons",
            "read only for which Python each release of packages with compiled code has a wheel",
        ),
        Option(
            "debian",
            "read only, from Debian's index files at URL, which package has which header, library, "
            "pkg-config module and program",
            "URL",
        ),
    ),
)

# doit's commands that are useful to users, with what they do in torchyard
DOIT_COMMANDS = {
    "list": "list the tasks; --status: with their states, --all: with each extension",
    "help": "show this overview; help NAME explains one task",
    "clean": "remove the stage records, but no built files: the next build checks everything",
    "info": "show the files that a task reads and writes, and whether it would run",
    "forget": "make doit forget that a task ran; clean does more",
    "tabcompletion": "print the completion script for --shell bash or zsh (docs/terminal.md)",
}

# Overview of `doit help`: commands by the user's intention
TYPICAL_STEPS = {
    "the first build": {
        "doit init": "choose your GPU, extensions and environment; optional",
        "doit doctor": "check what could stop the build, and how to fix it",
        "doit build": "build all: torch, and the extensions compiled for your GPU",
        "doit validate": "test the build; without a GPU, run the tests that need none",
        "build/PROFILE/run python …": "run any program with the torch that was built",
    },
    "after a pull, an edit, another setting": {
        "doit explain": "show what would run now, why, and how long it takes",
        "doit build": "rebuild only what changed",
        "doit history": "list what earlier runs did",
    },
    "when it fails": {
        "doit diagnose": "show the first real error, its cause and the remedy",
        "doit settings": "show every value and where it was set",
        "doit report": "write the last run as a page, and as text for a bug report",
        "doit restore": "restore the torch that your environment had",
    },
    "share": {
        "doit publish": "put the wheels on a package index",
        "doit lock": "record what was built, to build the same again",
        "doit bundle": "collect everything for a machine without a network",
        "doit matrix": "build several versions of one profile",
    },
}

STAGE_PAGES = (
    StagePage(
        "deps",
        "the build environment: venv, build tools, CUDA toolkit, compilers",
        does="Makes build/PROFILE/venv with the build tools, finds or downloads the CUDA toolkit "
        "that torch needs, and finds the compilers and the compiler cache.",
        needs="A Python interpreter, a package index, and a C++ compiler if something is compiled.",
        makes="deps.json (interpreter, CUDA_HOME, compilers), cache.json (compiler cache), and "
        "toolchain.json, with which a replaced compiler is detected.",
        again="The required interpreter, tools, toolkit or compilers changed, or the "
        "environment was removed.",
        settings=("python", "toolkit", "build.env", "build.cache"),
    ),
    StagePage(
        "source",
        "PyTorch's source tree, with its submodules",
        does="Clones or unpacks PyTorch, or uses your own tree as it is; applies the patches, "
        "and records the exact content. Your own tree is never reset or cleaned.",
        needs="git and a network, except with source.path or a local tarball.",
        makes="source.json: the commit, the submodules, and a digest of uncommitted edits.",
        again="It checks the tree on every run, since you may have pulled or edited. If the tree "
        "did not change, no later stage runs.",
        settings=("source", "torch.version"),
    ),
    StagePage(
        "env",
        "one environment, for the stages and for your shell",
        does="Resolves every variable of the build and writes scripts: env.sh, env.ps1 or env.bat "
        "to build by hand; run and run.ps1 to run a program with the torch that was built.",
        needs="deps; for a source build also the tree.",
        makes="env.json and extension-env.json (each variable with its reason), env.*, run*.",
        again="A flag, a variable, the targets, the toolkit, a compiler or the tree changed, or a "
        "script was removed. The settings in runtime affect only the scripts.",
        settings=("target", "build.flags", "build.env", "runtime"),
    ),
    StagePage(
        "compile",
        "compile PyTorch incrementally",
        does="Runs the tree's build backend, CMake and Ninja in a folder that is kept (the tree's "
        "build/, or build/PROFILE/compile), with the compiler cache, and with only as many "
        "compilers as memory allows.",
        needs="source, deps and env.",
        makes="compile.json: the backend, the folders, and one digest of the built libraries.",
        again="The tree, the tools or the environment changed. Ninja then decides what to compile; "
        "after an interruption, only the unfinished files are compiled again.",
        settings=("build",),
    ),
    StagePage(
        "wheel",
        "torch itself: downloaded or built, checked, installed",
        does="Downloads the official wheel, packs what was compiled, or inspects the existing "
        "torch. Checks the libraries and the machine code before the installation.",
        needs="deps; for a source build also source, env and compile.",
        makes="wheel.json, and surface.json: the headers and symbols of torch that extensions use. "
        "The wheel is kept in the wheelhouse.",
        again="An input changed. If a rebuild gives the same content, the old wheel is kept.",
        settings=("torch", "wheel"),
    ),
    StagePage(
        "extensions",
        "each CUDA extension, built against that torch",
        does="Builds a wheel of each extension from a copy of its source, checks its machine code, "
        "installs and imports it. Independent extensions build in parallel.",
        needs="deps, env and wheel, and the extensions that `after` names.",
        makes="extensions/NAME.json: the wheel, its libraries and their archs.",
        again="Its source or settings, the compilers, the targets, or torch's headers or symbols "
        "changed. An optional extension whose host did not answer is tried on every run.",
        settings=("extensions", "companions", "target"),
        start="doit extensions:NAME builds one of them",
    ),
    StagePage(
        "install",
        "torch and the extensions, installed into your own environment",
        does="Checks the Python of install.into and installs everything that was built into it. "
        "Replaced packages are kept, and restored if the new ones cannot be imported.",
        needs="deps, env, wheel and extensions, and an environment that you can write to.",
        makes="install.json: what was installed; build/PROFILE/replaced: what was replaced.",
        again="A wheel changed, or an installed file changed or was removed.",
        settings=("install.into",),
        start="doit install runs it and the stages that it needs; doit restore undoes it",
    ),
    StagePage(
        "validate",
        "test what was built; without a GPU, run the tests that need none",
        does="Checks torch and the extensions from outside (files, machine code) and from inside "
        "(arithmetic, triton, NCCL, each extension). A check that cannot run is reported as "
        "not run, with the reason. Builds nothing.",
        needs="A build. It starts no other stage.",
        makes="validate.json, and validate.xml (JUnit) for CI. Exits with 1 if a check fails.",
        again="It runs whenever you request it.",
        settings=("validation", "extensions"),
    ),
)

BUILD_PAGE = StagePage(
    "build",
    "bring everything in this profile up to date; this is the default task",
    does="Runs the stages in order: deps, source, env, compile, wheel, extensions, install. "
    "Each stage checks whether it is up to date, so a second run does only what changed.",
    needs="A machine without problems: run doit doctor. A build runs the quick checks first and "
    "stops at problems.",
    makes="build/PROFILE, the wheels in the wheelhouse, and a record of the run.",
    again="Each stage prints why it runs; doit explain shows it in advance.",
    settings=("target", "torch", "extensions"),
    start="doit build; with -a, it runs every stage again",
)
