"""Read an extension's project without running it, and check the archs that it compiles for."""

import ast
import configparser
import re
import threading
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.parser import HeaderParser
from functools import partial
from pathlib import Path, PurePath

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError, TorchyardError
from tasks.core.model import Arch
from tasks.core.text_formatting import format_short_list
from tasks.knowledge import Knowledge
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.machine_code_rules import MachineCode, can_run_code, select_library_targets
from tasks.stages.extensions.model import ExtensionJob
from tasks.system import source_trees
from tasks.wheels import wheel_archive_io
from tasks.wheels.machine_code_io import MachineCodeReader

_VARIABLE_READ = re.compile(
    r"""(?:environ(?:\.get\(|\[)|getenv\()\s*["'](\w+)["'](?!\]\s*=[^=])"""
    r"""|["'](\w+)["']\s+(?:not\s+)?in\s+os\.environ"""
)
_GPU_CHECK = re.compile(r"^[^#]*\bcuda\.(?:is_available|device_count)\(")
_ARCH_SETTING = re.compile(r"^[^#]*(?:-gencode|compute_\{?\w|TORCH_CUDA_ARCH_LIST[\"']\]\s*=[^=])")


@dataclass(frozen=True)
class Project:
    """A project with setup.py or pyproject.toml. `shown` is the path of setup.py for messages."""

    folder: Path
    shown: PurePath

    @property
    def name(self) -> str:
        """Return the name in the project's metadata, or "" if only a build can determine it."""
        parsers: dict[str, Callable[[str], str]] = {
            "pyproject.toml": lambda text: str(tomllib.loads(text)["project"].get("name", "")),
            "setup.cfg": _parse_cfg_name,
            "setup.py": _parse_setup_name,
            "PKG-INFO": lambda text: HeaderParser().parsestr(text).get("Name", ""),
        }
        for file, parse in parsers.items():
            # A file that cannot be parsed has no name; another file may have it
            with suppress(SyntaxError, ValueError, KeyError, AttributeError, configparser.Error):
                if name := parse(self._read_text(file)):
                    return name
        return ""

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the environment variables that setup.py reads, in the order of first use."""
        names = (one or other for one, other in _VARIABLE_READ.findall(self._read_text("setup.py")))
        return tuple(dict.fromkeys(names))

    def find_line(self, pattern: re.Pattern[str]) -> str:
        """Return `FILE:LINE` of the first match of `pattern` in setup.py, or "" if none matches."""
        lines = enumerate(self._read_text("setup.py").splitlines(), 1)
        numbers = (number for number, line in lines if pattern.search(line))
        return next((f"{self.shown}:{number}" for number in numbers), "")

    def _read_text(self, name: str) -> str:
        file = self.folder / name
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def locate_project(job: ExtensionJob) -> Project:
    """Return the project in the fetched source tree of an extension."""
    folder = Path(job.tree) / job.subdirectory
    return Project(folder, job.original / job.subdirectory / "setup.py")


def _parse_cfg_name(text: str) -> str:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return parser.get("metadata", "name", fallback="")


def _parse_setup_name(text: str) -> str:
    """Return the `name` argument of setup(), or "" if its value is not a string."""
    nodes = [*ast.walk(ast.parse(text))]
    texts = {
        target.id: node.value.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"setup", "setuptools.setup"}:
            for value in (one.value for one in node.keywords if one.arg == "name"):
                name = value.value if isinstance(value, ast.Constant) else None
                name = texts.get(value.id) if isinstance(value, ast.Name) else name
                return name if isinstance(name, str) else ""
    return ""


# Variables with CUDA in their names that do not turn on a CUDA build
_NO_CUDA_SWITCHES = {"CUDA_HOME", "CUDA_PATH", "TORCH_CUDA_ARCH_LIST", "CUDA_VISIBLE_DEVICES"}


def read_library_archs(
    job: ExtensionJob, deps: DepsManifest, unpacked: Path, recorded: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Return the archs ("12.0", "12.0+PTX") of each library that has device code.

    The keys of `recorded` are the files of the wheel; `unpacked` is the folder with these files.
    Raises `BadArtifactError` if the code does not run on every target.
    """
    reader = MachineCodeReader(deps.cuobjdump or "")
    libraries = wheel_archive_io.list_libraries(recorded)
    codes = {name: reader.read_images(unpacked / name).code for name in libraries}
    codes = {name: code for name, code in codes.items() if code.cubins or code.ptx}
    cubins = (arch for code in codes.values() for arch in code.cubins)
    ptx = (arch for code in codes.values() for arch in code.ptx)
    combined = {"the wheel": MachineCode(frozenset(cubins), frozenset(ptx))} if codes else {}
    toolkit_version = deps.toolkit.version if deps.toolkit and job.kind != "wheel" else None
    for name, code in {**codes, **combined}.items():
        _require_targets(job, name, code, toolkit_version)
    return {name: code.names for name, code in codes.items()}


def needs_device_code(job: ExtensionJob, unpacked: Path, recorded: Mapping[str, str]) -> bool:
    """Return True if a library of the wheel must contain device code.

    This is the case if the settings require CUDA or the source has .cu files. A wheel of .cu files
    without libraries needs no device code, because it compiles these files at first use.
    """
    if not job.targets or job.kind == "wheel":
        return False
    if job.cuda != "auto":
        return job.cuda == "required"
    has_libraries = any(wheel_archive_io.list_libraries(recorded))
    has_sources = bool(source_trees.find_kernels(job.tree / job.subdirectory))
    return has_sources and (has_libraries or not any(unpacked.rglob("*.cu")))


def build_missing_code_error(job: ExtensionJob) -> BadArtifactError:
    """Return the error for a wheel that must contain device code but has none."""
    project, place = locate_project(job), f"extensions ({job.name})"
    sources = [path.as_posix() for path in source_trees.find_kernels(job.tree / job.subdirectory)]
    has_sources = f"its source contains {format_short_list(sources, 2)}"
    reason = has_sources if sources else f"{place}.cuda is required"
    return BadArtifactError(
        f"{job.name} was built without device code, but {reason}",
        location=project.find_line(_GPU_CHECK) or place,
        hint="\n  → ".join(_list_code_hints(job, project)),
    )


def _list_code_hints(job: ExtensionJob, project: Project) -> Iterable[str]:
    """Yield hints on how to compile the .cu files, the most likely hint first."""
    place, forced = f"extensions ({job.name})", job.env.get("FORCE_CUDA")
    cuda_variables = [
        name for name in project.variables if "CUDA" in name and name not in _NO_CUDA_SWITCHES
    ]
    if forced != "1" and "FORCE_CUDA" in cuda_variables:
        yield f'set {place}.env: {{FORCE_CUDA: "1"}}'
    elif project.find_line(_GPU_CHECK):
        yield f"remove the check for a GPU in this line with a patch ({place}.patches)"
        yield "build on a machine with a GPU"
    others = [name for name in cuda_variables if name not in ("FORCE_CUDA", *job.env)]
    if others:
        yield f"set variables that setup.py reads in {place}.env: {format_short_list(others, 3)}"
    yield f"set {place}.cuda: none if the extension needs no CUDA code"


def _require_targets(job: ExtensionJob, name: str, code: MachineCode, maker: str | None) -> None:
    knowledge = load_knowledge(Path(job.knowledge))
    targets = select_library_targets(PurePath(name).name, job.targets)
    if missing := [one for one in targets if not can_run_code(knowledge, code, one, maker=maker)]:
        archs = ", ".join(map(str, sorted(code.cubins))) or "no arch"
        place, targets_text = f"extensions ({job.name})", ", ".join(map(str, sorted(missing)))
        raise BadArtifactError(
            f"{name} contains code for {archs}, but no code that runs on {targets_text}",
            location=place,
            hint="set git and ref in extensions to build from source: no wheel has this code"
            if job.kind == "wheel"
            else f"remove the archs from setup.py with a patch ({place}.patches)",
        )


_EXTENSION_NAME = re.compile(r"-DTORCH_EXTENSION_NAME=(\w+)")
# only torch's cpp_extension defines this macro; a CMakeLists.txt may define TORCH_EXTENSION_NAME
_CPP_EXTENSION_DEFINE = "-DTORCH_API_INCLUDE_EXTENSION_H"
_GENCODE_OPTION = re.compile(
    r"(?:-gencode|--generate-code)[= ]['\"\\]*arch=compute_\w+,code=['\"\\]*(\[[^\]]*\]|[\w,]+)"
)
_ARCH_OPTION = re.compile(r"(?:-arch|--gpu-architecture)[= ]['\"]?((?:sm|compute)_\w+)")
_CODE_NAME = re.compile(r"(sm|compute)_(\d{2,3}[af]?)\b")


def parse_nvcc_archs(command: str) -> MachineCode | None:
    """Return the machine code that a command's nvcc options request; None if they name no arch."""
    # -arch=sm_89 means both the machine code and the PTX of sm_89
    alone = [f"{arch},{arch.replace('sm_', 'compute_')}" for arch in _ARCH_OPTION.findall(command)]
    options = " ".join([*_GENCODE_OPTION.findall(command), *alone])
    names = _CODE_NAME.findall(options)
    cubins, ptx = (
        frozenset(Arch.parse_capability(f"sm_{digits}") for one, digits in names if one == kind)
        for kind in ("sm", "compute")
    )
    return MachineCode(cubins, ptx) if names else None


@dataclass
class ArchGuard:
    """A check that nvcc compiles for all targets. If not, `error` is set and `stop` ends the build.

    `maker` is the version of the CUDA toolkit that compiles, or None if unknown.
    """

    job: ExtensionJob
    knowledge: Knowledge
    maker: str | None
    error: TorchyardError | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def check_build_file(self) -> None:
        """Check the nvcc options in each build.ninja of the current build."""
        folder = Path(self.job.tree, self.job.subdirectory, "build")
        for file in folder.glob("temp*/build.ninja"):
            options, edges, _ = file.read_text("utf-8", errors="replace").partition("\nbuild ")
            for line in options.splitlines() if edges else ():
                self.check_line(line)

    def check_line(self, line: str) -> None:
        """Check the nvcc options in a line of the build log or of a build.ninja."""
        if self.error or not (line.startswith("cuda_") or "nvcc" in line):
            return
        library, code = _EXTENSION_NAME.search(line), parse_nvcc_archs(line)
        if library is None or code is None or _CPP_EXTENSION_DEFINE not in line:
            return
        runs_on = partial(can_run_code, self.knowledge, code, maker=self.maker)
        targets = select_library_targets(library[1], self.job.targets)
        if missing := [str(arch) for arch in targets if not runs_on(arch)]:
            project = locate_project(self.job)
            archs = ", ".join(map(str, sorted(code.cubins | code.ptx)))
            self.error = TorchyardError(
                f"torchyard stopped the build: {self.job.name} compiles for {archs}, "
                f"not for {', '.join(missing)}, which target.gpus requires",
                location=project.find_line(_ARCH_SETTING) or f"extensions ({self.job.name})",
                hint="\n  → ".join(_list_arch_hints(self.job, project)),
            )
            self.stop.set()


def _list_arch_hints(job: ExtensionJob, project: Project) -> Iterator[str]:
    place = f"extensions ({job.name})"
    digits = ";".join(f"{arch.major}{arch.minor}" for arch in job.targets)
    for name in (name for name in project.variables if "ARCH" in name):
        if name in job.env:
            yield f'correct {name} in {place}.env: its value is "{job.env[name]}"'
        elif name != "TORCH_CUDA_ARCH_LIST":
            yield f'set {place}.env, e.g. {{{name}: "{digits}"}}: setup.py reads this variable'
    yield f"remove the archs from setup.py with a patch ({place}.patches)"
