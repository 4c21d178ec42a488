"""Run the probe, the smoke checks and the C++ check, and read the machine code of libraries."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError, CommandFailedError, MissingToolError
from tasks.core.model import CheckStatus, Command, ValidationResult
from tasks.knowledge import Knowledge
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.machine_code_rules import select_library_targets
from tasks.knowledge.versions import parse_major_minor
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.validate import check_results
from tasks.stages.validate.model import SmokeCheck, ValidateJob
from tasks.stages.wheel.model import KERNELS, Wheel
from tasks.system import files, shell
from tasks.system.hardware import host_probe
from tasks.wheels import machine_code_io
from tasks.wheels.machine_code_io import MachineCodeImages, MachineCodeReader

_PROBE_SCRIPT = Path(__file__).parent / "probes" / "torch_probe.py"
_PROBE_CHECKS = (  # in the order of the probe
    *("version", "cuda", "device", "matmul", "reduction", "convolution", "autograd"),
    *("graph", "speed", "compile", "nccl"),
)
_TIMED_OUT = 124  # the exit code after a timeout
_NO_CUDA = "torch without CUDA"  # the probe's reason for such a torch


def run_probe(
    job: ValidateJob, wheel: Wheel, built: Mapping[str, BuiltExtension], env: Mapping[str, str]
) -> check_results.ProbeOutput:
    """Run the probe until each check has run.

    A crash or a hang loses only the check during which it happened.
    """
    gpu_count = len(host_probe.list_gpus()) if wheel.cuda else 0

    def run_remaining_checks(left: Sequence[str]) -> check_results.ProbeRun:
        argv = build_probe_command(job, wheel, built, gpu_count, left)
        return _run_program(Command(argv, env, "the probe", log=job.log, timeout=job.timeout))

    return check_results.collect_probe_output(
        run_remaining_checks,
        [*_list_probe_checks(job), *(f"{name}: import" for name in _list_imports(job, built))],
    )


def _run_program(command: Command) -> check_results.ProbeRun:
    lines: list[str] = []
    try:
        shell.run_command(command, lines.append)
    except (CommandFailedError, MissingToolError) as error:
        is_timeout = isinstance(error, CommandFailedError) and error.code == _TIMED_OUT
        too_long = f"took longer than {command.timeout:.0f} s and was ended"
        return check_results.ProbeRun(
            tuple(lines), too_long if is_timeout else error.message, is_timeout
        )
    return check_results.ProbeRun(tuple(lines))


def build_probe_command(
    job: ValidateJob,
    wheel: Wheel,
    built: Mapping[str, BuiltExtension],
    cards: int,
    left: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Return the command of the probe for the checks in `left`, or all if it is None.

    `cards` is the number of GPUs of the driver.
    """
    arguments = {
        "checks": [name for name in job.checks if left is None or name in left],
        "version": wheel.version,
        "folder": wheel.folder,
        "cuda": wheel.cuda,
        "cards": cards,
        "imports": {
            name: modules
            for name, modules in _list_imports(job, built).items()
            if left is None or f"{name}: import" in left
        },
    }
    return (wheel.python, "-X", "faulthandler", str(_PROBE_SCRIPT), json.dumps(arguments))


def _list_probe_checks(job: ValidateJob) -> list[str]:
    return [name for name in _PROBE_CHECKS if name in job.checks]


def _list_imports(
    job: ValidateJob, built: Mapping[str, BuiltExtension]
) -> dict[str, tuple[str, ...]]:
    if "extensions" not in job.checks:
        return {}
    return {
        name: extension.imports
        for name, extension in built.items()
        if extension.imports and extension.status == "built"
    }


def collect_probe_checks(
    job: ValidateJob,
    wheel: Wheel,
    said: check_results.ProbeOutput,
    built: Mapping[str, BuiltExtension],
) -> list[ValidationResult]:
    """Return the results of the probe, with torch's archs compared to the targets."""
    expected = [
        "import",
        *_list_probe_checks(job),
        *(f"{name}: import" for name in _list_imports(job, built)),
    ]
    crash_details = {name: crash.detail for name, crash in said.crashes.items()}
    results = [
        *check_results.build_probe_checks(expected, said.lines, crash_details, said.stop_reason),
        *_check_archs(job, wheel, said),
    ]
    if check_results.EXIT_CHECK in crash_details:
        results.append(
            ValidationResult(
                check_results.EXIT_CHECK,
                "failed",
                f"after the last check {crash_details[check_results.EXIT_CHECK]}",
            )
        )
    if "gpu" in crash_details:
        results = _fail_device_check(results, crash_details["gpu"])
    if wheel.cuda and said.no_gpu_reason == _NO_CUDA:
        results = check_results.fail_without_cuda(results, wheel.cuda, job.build_command)
    knowledge = load_knowledge(Path(job.knowledge))
    diagnosed = [
        check_results.add_diagnosis(
            knowledge, check, said.crashes[check.name].output if check.name in crash_details else ""
        )
        for check in results
    ]
    return [*diagnosed, *_list_unreachable_checks(built)]


def _fail_device_check(found: list[ValidationResult], how: str) -> list[ValidationResult]:
    """Return the checks with `device` failed, because the search for a GPU did not finish."""
    remaining = [check for check in found if check.name != "device"]
    return [*remaining, ValidationResult("device", "failed", f"looking for the card {how}")]


def _list_unreachable_checks(built: Mapping[str, BuiltExtension]) -> list[ValidationResult]:
    return [
        ValidationResult(f"{name}: import", "not run", "its source could not be reached")
        for name, extension in built.items()
        if extension.status == "unreachable"
    ]


def _check_archs(
    job: ValidateJob, wheel: Wheel, said: check_results.ProbeOutput
) -> list[ValidationResult]:
    if "archs" not in job.checks:
        return []
    if said.no_gpu_reason == _NO_CUDA:
        return [ValidationResult("archs", "not run", _NO_CUDA)]
    if "archs" not in said.lines:
        return [
            ValidationResult("archs", "not run", said.stop_reason or "the probe ended before it")
        ]
    code = check_results.parse_arch_flags(said.lines["archs"]["detail"])
    knowledge = load_knowledge(Path(job.knowledge))
    return [
        check_results.check_coverage(
            knowledge, "archs", code, job.targets, "torch's arch list", wheel.cuda
        )
    ]


def run_smoke_checks(
    job: ValidateJob,
    said: check_results.ProbeOutput,
    built: Mapping[str, BuiltExtension],
    python: str,
    env: Mapping[str, str],
) -> list[ValidationResult]:
    """Run the script of each built extension whose requirements are met."""
    if "extensions" not in job.checks:
        return []
    hung, checks = said.hung, []
    for name, smoke in job.smokes.items():
        if name not in built:
            continue
        title, log = f"{name}: smoke check", job.log.with_name(f"validate-{name}.log")
        if reason := _find_skip_reason(smoke, built[name], replace(said, hung=hung)):
            checks.append(ValidationResult(title, "not run", reason))
            continue
        run = _run_program(Command((python, str(smoke.script)), env, title, None, log, job.timeout))
        hung += run.hung and smoke.gpu
        checks.append(_build_smoke_check(job, title, run, log))
    return checks


def _build_smoke_check(
    job: ValidateJob, what: str, run: check_results.ProbeRun, log: PurePath
) -> ValidationResult:
    """Return the result of a script: exit 0 passes with its last line; a timeout has failed."""
    if not run.failure:
        last_line = next((line for line in reversed(run.lines) if line.strip()), "exit 0")
        return ValidationResult(what, "passed", last_line)
    failure = ValidationResult(what, "failed", run.failure)
    result = check_results.add_diagnosis(
        load_knowledge(Path(job.knowledge)), failure, "\n".join(run.lines)
    )
    return result if result.remedy else replace(result, remedy=f"see {log}")


def _find_skip_reason(
    smoke: SmokeCheck, built: BuiltExtension, said: check_results.ProbeOutput
) -> str:
    if built.status == "unreachable":
        return "its source could not be reached"
    if smoke.gpu and (
        said.stop_reason == check_results.GPU_HUNG or said.hung >= check_results.MAX_HANGS
    ):
        return check_results.GPU_HUNG
    if smoke.gpu and said.no_gpu_reason is None:
        return "the probe did not get as far as the card"
    return (said.no_gpu_reason or "") if smoke.gpu else ""


CPP_CHECK = "find_package(Torch)"


def check_cpp_program(
    job: ValidateJob, deps: DepsManifest, wheel: Wheel, env: Mapping[str, str]
) -> ValidationResult:
    """Configure, compile and run a C++ program in an empty folder."""
    files.remove_owned(job.work)
    build = files.create_owned_folder(job.work) / "libtorch"
    lines: list[str] = []
    try:
        for what, argv in list_cpp_steps(job, deps, wheel, build):
            command = Command(
                argv, _add_library_path(job, wheel, env), what, log=job.log, timeout=job.timeout
            )
            shell.run_command(command, lines.append)
    except CommandFailedError as error:
        return ValidationResult(CPP_CHECK, "failed", error.message, f"see {error.location}")
    return ValidationResult(CPP_CHECK, "passed", lines[-1] if lines else "exit 0")


def list_cpp_steps(
    job: ValidateJob, deps: DepsManifest, wheel: Wheel, build: PurePath
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the commands to run in order, each with its description."""
    configure = (
        deps.cmake.path, "-S", str(job.templates), "-B", str(build), "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={_format_cmake_path(job, deps.ninja.path)}",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_PREFIX_PATH={_format_cmake_path(job, wheel.prefix or '')}",
        f"-DTORCHYARD_CXX_STANDARD={find_cxx_standard(wheel.release)}",
    )  # fmt: skip
    suffix = ".exe" if job.system == "windows" else ""
    return (
        ("configure against the C++ libraries", configure),
        ("compile against the C++ libraries", (deps.cmake.path, "--build", str(build))),
        ("run the C++ program", (str(build / f"check{suffix}"),)),
    )


def _format_cmake_path(job: ValidateJob, path: str) -> str:
    """Return the path with forward slashes on Windows.

    CMake writes it into generated files, where a backslash would escape the next character.
    """
    return path.replace("\\", "/") if job.system == "windows" else path


def find_cxx_standard(release: str) -> str:
    """Return the C++ standard of torch's headers: C++20 from 2.12 on (its TorchConfig.cmake)."""
    return "20" if parse_major_minor(release) >= (2, 12) else "17"


def _add_library_path(job: ValidateJob, wheel: Wheel, env: Mapping[str, str]) -> dict[str, str]:
    """Add the DLLs to PATH on Windows; elsewhere CMake writes an RPATH."""
    if job.system != "windows":
        return dict(env)
    return {**env, "PATH": f"{wheel.prefix}\\bin;{wheel.prefix}\\lib;{env.get('PATH', '')}"}


_LIBRARY_NAME = re.compile(r"\.(so(\.\d+)*|dll|pyd)$", re.IGNORECASE)
_NO_TARGET = "no GPU target: this profile builds for the CPU"


@dataclass(frozen=True)
class CodeCheckContext:
    """The job, the facts and the reader of a machine code check."""

    job: ValidateJob
    knowledge: Knowledge
    reader: MachineCodeReader


def check_torch_code(look: CodeCheckContext, wheel: Wheel) -> ValidationResult:
    """Check the machine code of all libraries of torch, as one check."""
    name = "machine_code"
    if wheel.cuda is None:
        return ValidationResult(name, "not run", "torch without CUDA")
    if not look.job.targets:
        return ValidationResult(name, "not run", _NO_TARGET)
    kernels = _find_kernel_library(look.job, wheel)
    if not kernels.is_file():
        detail = f"torch is for CUDA {wheel.cuda}, and there is no {kernels}"
        return ValidationResult(
            name, "failed", detail, f"{look.job.build_command} installs it again"
        )
    parts = [_check_library(look, kernels, name, wheel.cuda, most=True)]
    parts += [
        _check_secondary_library(look, library, name, wheel.cuda)
        for library in _list_other_libraries(wheel, kernels)
    ]
    return _add_reader_name(look, check_results.combine_checks(name, parts))


def check_extension_code(
    look: CodeCheckContext, deps: DepsManifest, built: Mapping[str, BuiltExtension]
) -> list[ValidationResult]:
    """Check the machine code of each extension, one check for all of its libraries."""
    return [_check_extension(look, deps, extension) for extension in built.values()]


def _find_kernel_library(job: ValidateJob, wheel: Wheel) -> Path:
    """Return the library with torch's kernels."""
    folder = Path(wheel.prefix or wheel.folder) / "lib"
    places = [folder / name for name in KERNELS[job.system]]
    return next((path for path in places if path.is_file()), places[0])


def _list_other_libraries(wheel: Wheel, kernels: Path) -> Iterator[Path]:
    """Yield the other libraries with device code; a file with two names is listed once."""
    paths = {kernels.resolve()}
    for path in sorted(Path(wheel.prefix or wheel.folder).rglob("*")):
        if _LIBRARY_NAME.search(path.name) and path.is_file() and path.resolve() not in paths:
            paths.add(path.resolve())
            if _has_device_code(path):
                yield path


def _has_device_code(path: Path) -> bool:
    try:
        return machine_code_io.has_device_code(path)
    except BadArtifactError:
        return True  # the reader reports the error


def _check_extension(
    look: CodeCheckContext, deps: DepsManifest, extension: BuiltExtension
) -> ValidationResult:
    name = f"{extension.name}: machine code"
    if extension.status == "unreachable":
        return ValidationResult(name, "not run", "its source could not be reached")
    if not look.job.targets:
        return ValidationResult(name, "not run", _NO_TARGET)
    toolkit_version = deps.toolkit.version if deps.toolkit else None
    libraries = [Path(library) for library in extension.libraries]
    result = check_results.combine_checks(
        name, [_check_library(look, path, name, toolkit_version) for path in libraries]
    )
    if result.status == "not run" and extension.needs_code:
        result = replace(
            result, status="failed", remedy=f"{look.job.build_command} builds it again"
        )
    return _add_reader_name(look, result)


def _check_library(
    look: CodeCheckContext, library: Path, name: str, maker: str | None, *, most: bool = False
) -> ValidationResult:
    """Check that the library covers every target; with `most`, by the archs of most kernels."""
    images = _read_images(look, library, name)
    if isinstance(images, ValidationResult):
        return images
    if not images.cubins and not images.ptx:
        status: CheckStatus = "failed" if most else "not run"
        return ValidationResult(name, status, f"{library.name} holds no device code")
    code = images.common_code if most else images.code
    targets = select_library_targets(library.name, look.job.targets)
    return check_results.check_coverage(look.knowledge, name, code, targets, library.name, maker)


def _check_secondary_library(
    look: CodeCheckContext, library: Path, name: str, maker: str
) -> ValidationResult:
    """Report the code of another library of torch; only an unreadable library fails."""
    images = _read_images(look, library, name)
    if isinstance(images, ValidationResult):
        return images
    check = check_results.check_coverage(
        look.knowledge, name, images.common_code, look.job.targets, library.name, maker
    )
    if check.status != "failed":
        return check
    return ValidationResult(name, "passed", f"{check.detail}, which a few functions alone need")


def _add_reader_name(look: CodeCheckContext, check: ValidationResult) -> ValidationResult:
    """Add the name of the reader to the detail."""
    if check.status == "not run":
        return check
    return ValidationResult(
        check.name, check.status, f"{check.detail} (by {look.reader})", check.remedy, check.cause
    )


def _read_images(
    look: CodeCheckContext, library: Path, name: str
) -> MachineCodeImages | ValidationResult:
    """Return the machine code of the library, or a failed check if it cannot be read."""
    try:
        return look.reader.read_images(library)
    except BadArtifactError as error:
        return ValidationResult(name, "failed", f"{error.location}: {error.message}", error.hint)


_PROGRAM = "cuobjdump.exe" if sys.platform == "win32" else "cuobjdump"


def find_code_reader(deps: DepsManifest, wheel: Wheel) -> MachineCodeReader:
    """Return a reader that prefers NVIDIA's cuobjdump over the built-in parser.

    cuobjdump is taken from the toolkit, torch's triton or PATH.
    """
    return MachineCodeReader(
        next((str(path) for path in _list_cuobjdump_paths(deps, wheel) if path.is_file()), "")
    )


def _list_cuobjdump_paths(deps: DepsManifest, wheel: Wheel) -> Iterator[Path]:
    if deps.cuobjdump:
        yield Path(deps.cuobjdump)
    yield Path(wheel.folder).parent / "triton" / "backends" / "nvidia" / "bin" / _PROGRAM
    if program := shutil.which(_PROGRAM):
        yield Path(program)
