"""Architecture rules, checked through the imports."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.rows import each_row

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "tasks").rglob("*.py"))
# Only `system/`, `cli/`, a stage's fixed effectful modules and `*_io.py` may import or call these
EFFECTS = frozenset(
    {
        *("subprocess", "socket", "shutil", "os", "time", "random", "tempfile", "threading"),
        *("signal", "urllib.request", "http.client", "psutil", "pynvml"),
    }
)
FILE_METHODS = frozenset(
    {
        *("read_text", "read_bytes", "write_text", "write_bytes", "open", "is_file", "is_dir"),
        *("exists", "iterdir", "glob", "rglob", "stat", "lstat", "mkdir", "unlink"),
    }
)
EFFECTFUL_NAMES = {"run.py", "up_to_date.py", "explain_changes.py"}
EXPANDS_USER = "tasks.settings.values"  # expands `~` in paths of the settings
# Each package may import those before it (docs/architecture.md)
PACKAGES = (
    *("core", "knowledge", "settings", "diagnosis", "system", "runlog", "compiler_cache"),
    *("jobs", "wheels", "stages", "planning", "lock", "doctor", "cli"),
)
KNOWS_DOIT = {
    "tasks/cli/running/doit_tasks.py",
    "tasks/cli/running/execute.py",
    "tasks/cli/running/doit_adapter.py",
}
KNOWS_DOIT |= {"tasks/cli/doit_overrides.py", "tasks/cli/front.py"}
UNNAMED = {"utils", "helpers", "common", "manager", "base", "misc"}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Return all modules that `path` imports at any depth; `from a import b` means a and a.b."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


BY_NAME = {module_name(path): path for path in MODULES if "probes" not in path.parts}


def is_effectful(path: Path) -> bool:
    parts = path.relative_to(ROOT / "tasks").parts
    return (
        parts[0] in {"system", "cli"}
        or "probes" in parts
        or path.name in EFFECTFUL_NAMES
        or path.name.endswith("_io.py")
    )


def run_time_imports(path: Path) -> set[str]:
    """Return every module that `path` imports at run time, at any depth."""
    tree = parsed(path)
    blocks = [
        n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)
    ]
    typing_only = {id(node) for block in blocks for node in ast.walk(block)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (named & BY_NAME.keys()) | ({node.module} if named - BY_NAME.keys() else set())
    return found


def test_effects_are_only_in_modules_named_for_them() -> None:
    """A pure module imports only pure modules, so that no effect is reached indirectly."""
    wrong = []
    for name, path in BY_NAME.items():
        if is_effectful(path):
            continue
        for module in sorted(run_time_imports(path)):
            is_own = module in BY_NAME and is_effectful(BY_NAME[module])
            if is_own or (module in EFFECTS and name != EXPANDS_USER):
                wrong.append(f"{name_of(path)} imports {module}")
        calls = [node.func for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
        names = {call.attr for call in calls if isinstance(call, ast.Attribute)}
        names |= {call.id for call in calls if isinstance(call, ast.Name)} & {"open"}
        wrong += [f"{name_of(path)} calls {method}" for method in sorted(names & FILE_METHODS)]
    assert wrong == []


@each_row("path", MODULES, ids=name_of)
def test_stage_imports_only_the_model_of_another_stage(path: Path) -> None:
    parts = path.relative_to(ROOT / "tasks").parts
    if parts[0] != "stages" or len(parts) < 3:
        return
    stage = parts[1]
    for module in imports(path):
        other = module.split(".")
        if other[:2] != ["tasks", "stages"] or len(other) < 4 or other[2] == stage:
            continue
        if (ROOT / "tasks" / "stages" / other[2]).is_dir():
            assert other[3] == "model", f"{name_of(path)} imports {module}"


@each_row("path", MODULES, ids=name_of)
def test_doit_is_imported_only_by_its_adapter(path: Path) -> None:
    if name_of(path) not in KNOWS_DOIT:
        assert not [module for module in imports(path) if within(module, "doit")]


def test_packages_import_only_lower_layers() -> None:
    found = sorted({path.relative_to(ROOT / "tasks").parts[0] for path in MODULES})
    assert found == sorted([*PACKAGES, "__init__.py"])
    upward = [
        f"{name_of(path)} imports {module}"
        for path in MODULES
        for module in imports(path)
        if within(module, "tasks") and position(module) > position(module_name(path))
    ]
    assert upward == []


def position(module: str) -> int:
    """Return the place of a module's package in the order; 0 for `tasks` itself."""
    package = [*module.split("."), ""][1]
    return PACKAGES.index(package) if package in PACKAGES else 0


def test_processes_are_started_in_one_module() -> None:
    starters = {
        name_of(path)
        for path in MODULES
        if "probes" not in path.parts
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute)
        and node.attr in {"Popen", "check_output", "system"}
        and isinstance(getattr(node, "ctx", None), ast.Load)
        and isinstance(node.value, ast.Name)
        and node.value.id in {"subprocess", "os"}
    }
    assert starters == {"tasks/system/process_group.py", "tasks/system/shell.py"}


def test_no_module_has_a_vague_name() -> None:
    assert not [name_of(path) for path in MODULES if path.stem in UNNAMED]


@each_row("path", MODULES, ids=name_of)
def test_files_stay_within_size_limits(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


def test_loading_imports_no_actions_and_no_build_only_modules() -> None:
    heavy = (
        "jinja2",
        "rich",
        "psutil",
        "uv",
        "elftools",
        "cyclonedx",
        "tasks.stages.deps.run",
        "tasks.stages.wheel.run",
        "tasks.core.build_activity",
        "tasks.lock.bundle_archive_io",
        "tasks.stages.install.target_interpreter_io",
        "tasks.core.ninja_progress",
        "tasks.doctor.host_facts",
        "tasks.wheels.library_linkage",  # build outputs, not part of a plan
        "tasks.knowledge.costs",  # init, explain and doctor need the cost of a build
        "tasks.knowledge.costs",
        "packaging.specifiers",
        "packaging.tags",  # with logging
        "difflib",
        *(["pynvml"] if not has_driver() else []),
    )
    code = (
        "import sys; sys.argv = ['doit', 'list']; from pathlib import Path; import os;"
        "from tasks.cli.session import open_session;"
        "from tasks.system.find_project import open_checkout;"
        "open_session(open_checkout(Path.cwd()), 'quickstart', os.environ, ['list']);"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def has_driver() -> bool:
    """Return True if the driver library is present; GPUs are then queried until they are pinned."""
    from tasks.system.hardware import nvidia  # noqa: PLC0415

    return nvidia._has_nvml()


def test_no_settings_model_uses_string_annotations() -> None:
    """pydantic would compile each of them again in every run."""
    for path in sorted((ROOT / "tasks" / "settings").glob("*.py")):
        classes = [
            n for n in ast.parse(path.read_text("utf-8")).body if isinstance(n, ast.ClassDef)
        ]
        bases = {base.id for one in classes for base in one.bases if isinstance(base, ast.Name)}
        if bases & {"Section", "BaseModel"}:
            assert "__future__" not in set(imports(path)), name_of(path)


def test_loading_searches_for_no_pydantic_plugins() -> None:
    code = (
        "import importlib.metadata as metadata, sys; from doit.doit_cmd import DoitMain;"
        "asked = []; real = metadata.entry_points;"
        "metadata.entry_points = lambda **of: asked.append(of) or real(**of);"
        "code = DoitMain().run(['list']); print(code, asked, file=sys.stderr)"
    )
    env = {key: value for key, value in os.environ.items() if key != "PYDANTIC_DISABLE_PLUGINS"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "0 []"
