"""The stages, in the order in which they run."""

from __future__ import annotations

from tasks.cli.help.page import StagePage

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
