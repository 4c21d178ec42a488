"""Run the probe, the smoke checks and the C++ check, and read the machine code of libraries."""

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Literal

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError, CommandFailedError, MissingToolError
from tasks.core.model import CheckStatus, Command, ValidationResult
from tasks.knowledge import Knowledge
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.machine_code_rules import select_library_targets
from tasks.knowledge.versions import parse_major_minor
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.validate import check_results
from tasks.stages.validate.check_results import (
    EXIT_CHECK,
    GPU_HUNG,
    NO_CUDA,
    NO_TARGET,
    ProbeOutput,
    ProbeRun,
    add_diagnosis,
    build_probe_check,
    check_coverage,
    combine_checks,
    parse_arch_flags,
)
from tasks.stages.validate.model import SmokeCheck, ValidateJob
from tasks.stages.wheel.model import KERNELS, Wheel
from tasks.system import files, shell
from tasks.system.hardware import host_probe
from tasks.wheels import machine_code_io
from tasks.wheels.machine_code_io import MachineCodeReader

_PROBE_SCRIPT = Path(__file__).parent / "probes" / "torch_probe.py"
_PROBE_CHECKS = (  # in the order of the probe
    *("version", "cuda", "device", "matmul", "reduction", "convolution", "autograd"),
    *("graph", "speed", "compile", "nccl"),
)
_TIMED_OUT = 124  # the exit code after a timeout
_UNREACHABLE = "its source was unreachable, so it was not built"


def run_probe(
    job: ValidateJob, wheel: Wheel, built: Mapping[str, BuiltExtension], env: Mapping[str, str]
) -> ProbeOutput:
    """Run the probe. After a crash or a hang, run the probe again with the remaining checks."""
    gpu_count = len(host_probe.list_gpus()) if wheel.cuda else 0

    def run_remaining_checks(remaining: Sequence[str]) -> ProbeRun:
        argv = build_probe_command(job, wheel, built, gpu_count, remaining)
        command = Command(argv, env, "the check program", log=job.log, timeout=job.timeout)
        return _run_program(command)

    return check_results.collect_probe_output(run_remaining_checks, _list_probe_checks(job, built))


def _run_program(command: Command) -> ProbeRun:
    lines: list[str] = []
    failure, hung = "", False
    try:
        shell.run_command(command, lines.append)
    except (CommandFailedError, MissingToolError) as error:
        hung = isinstance(error, CommandFailedError) and error.code == _TIMED_OUT
        limit = f"the check took longer than {command.timeout:.0f} s and was ended"
        failure = limit if hung else error.message
    return ProbeRun(tuple(lines), failure, hung)


def build_probe_command(
    job: ValidateJob,
    wheel: Wheel,
    built: Mapping[str, BuiltExtension],
    gpu_count: int,
    remaining: Sequence[str],
) -> tuple[str, ...]:
    """Return the command that runs the probe with the `remaining` checks."""
    imports = {name: one.imports for name, one in built.items() if f"{name}: import" in remaining}
    arguments = {
        "checks": [name for name in job.checks if name in remaining],
        "version": wheel.version,
        "folder": wheel.folder,
        "cuda": wheel.cuda,
        "cards": gpu_count,
        "imports": imports,
    }
    return (wheel.python, "-X", "faulthandler", str(_PROBE_SCRIPT), json.dumps(arguments))


def _list_probe_checks(job: ValidateJob, built: Mapping[str, BuiltExtension]) -> list[str]:
    importable = built.items() if "extensions" in job.checks else ()
    return [
        *(name for name in _PROBE_CHECKS if name in job.checks),
        *(f"{name}: import" for name, one in importable if one.imports and one.status == "built"),
    ]


def collect_probe_checks(
    job: ValidateJob, wheel: Wheel, output: ProbeOutput, built: Mapping[str, BuiltExtension]
) -> list[ValidationResult]:
    """Return the results of the probe, and check that torch's archs cover the targets."""
    knowledge = load_knowledge(Path(job.layout.project.knowledge))
    names = ["import", *_list_probe_checks(job, built)]
    results = [build_probe_check(name, output) for name in names]
    if "archs" in job.checks:
        results.append(_check_archs(job, wheel, output, knowledge))
    if crash := output.crashes.get(EXIT_CHECK):
        detail = f"after the last check: {crash.failure}"
        results.append(ValidationResult(EXIT_CHECK, "failed", detail))
    if crash := output.crashes.get("gpu"):
        results = [check for check in results if check.name != "device"]
        results.append(ValidationResult("device", "failed", f"search for a GPU: {crash.failure}"))
    if wheel.cuda and output.no_gpu_reason == NO_CUDA:
        results = check_results.fail_without_cuda(results, wheel.cuda, job.build_command)
    outputs = {name: "\n".join(crash.lines) for name, crash in output.crashes.items()}
    unreachable = [name for name, one in built.items() if one.status == "unreachable"]
    return [
        *(add_diagnosis(knowledge, check, outputs.get(check.name, "")) for check in results),
        *(ValidationResult(f"{name}: import", "not run", _UNREACHABLE) for name in unreachable),
    ]


def _check_archs(
    job: ValidateJob, wheel: Wheel, output: ProbeOutput, knowledge: Knowledge
) -> ValidationResult:
    if output.no_gpu_reason == NO_CUDA:
        return ValidationResult("archs", "not run", NO_CUDA)
    if "archs" not in output.lines:
        return build_probe_check("archs", output)
    code, source = parse_arch_flags(output.lines["archs"]["detail"]), "torch's arch list"
    return check_coverage(knowledge, "archs", code, job.targets, source, wheel.cuda)


def run_smoke_checks(
    job: ValidateJob,
    output: ProbeOutput,
    built: Mapping[str, BuiltExtension],
    python: str,
    env: Mapping[str, str],
) -> list[ValidationResult]:
    """Run the test script of each built extension. A script with exit code 0 passes."""
    knowledge = load_knowledge(Path(job.layout.project.knowledge))
    hung, checks = output.hung, []
    for name, smoke in job.smokes.items() if "extensions" in job.checks else ():
        if name not in built:
            continue
        title, log = f"{name}: smoke check", job.log.with_name(f"validate-{name}.log")
        if reason := _find_skip_reason(smoke, built[name], output, hung):
            checks.append(ValidationResult(title, "not run", reason))
            continue
        run = _run_program(Command((python, str(smoke.script)), env, title, None, log, job.timeout))
        hung += run.hung and smoke.gpu
        if run.failure:
            check = ValidationResult(title, "failed", run.failure)
            check = add_diagnosis(knowledge, check, "\n".join(run.lines))
            checks.append(check if check.remedy else replace(check, remedy=f"see {log}"))
        else:
            last_line = next((line for line in reversed(run.lines) if line.strip()), "exit 0")
            checks.append(ValidationResult(title, "passed", last_line))
    return checks


def _find_skip_reason(
    smoke: SmokeCheck, built: BuiltExtension, output: ProbeOutput, hung: int
) -> str:
    if built.status == "unreachable":
        return _UNREACHABLE
    if not smoke.gpu:
        return ""
    if output.stop_reason == GPU_HUNG or hung >= check_results.MAX_HANGS:
        return GPU_HUNG
    reason = output.no_gpu_reason
    return "the check program ended before the search for a GPU" if reason is None else reason


def check_cpp_program(
    job: ValidateJob, deps: DepsManifest, wheel: Wheel, env: Mapping[str, str]
) -> ValidationResult:
    """Check that a C++ program can be configured, compiled and run with the C++ libraries."""
    folder = job.layout.build / "validate"
    files.remove_owned(folder)
    build = files.create_owned_folder(folder) / "libtorch"
    if job.system == "windows":  # DLLs are found by PATH; elsewhere, CMake writes an RPATH
        env = {**env, "PATH": f"{wheel.prefix}\\bin;{wheel.prefix}\\lib;{env.get('PATH', '')}"}
    name, lines = "find_package(Torch)", list[str]()
    try:
        for what, argv in list_cpp_steps(job, deps, wheel, build):
            command = Command(argv, env, what, log=job.log, timeout=job.timeout)
            shell.run_command(command, lines.append)
    except CommandFailedError as error:
        return ValidationResult(name, "failed", error.message, f"see {error.location}")
    return ValidationResult(name, "passed", lines[-1] if lines else "exit 0")


def list_cpp_steps(
    job: ValidateJob, deps: DepsManifest, wheel: Wheel, build: PurePath
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the description and the command of each step of the C++ check."""

    def format_path(path: str) -> str:
        # CMake writes the path into generated files, where a backslash escapes the next character
        return path.replace("\\", "/") if job.system == "windows" else path

    sources = job.layout.project.templates / "libtorch"
    configure = (
        deps.cmake.path, "-S", str(sources), "-B", str(build), "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={format_path(deps.ninja.path)}",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_PREFIX_PATH={format_path(wheel.prefix or '')}",
        # torch's headers need C++20 from 2.12 on (its TorchConfig.cmake)
        f"-DTORCHYARD_CXX_STANDARD={20 if parse_major_minor(wheel.release) >= (2, 12) else 17}",
    )  # fmt: skip
    suffix = ".exe" if job.system == "windows" else ""
    return (
        ("configure against the C++ libraries", configure),
        ("compile against the C++ libraries", (deps.cmake.path, "--build", str(build))),
        ("run the C++ program", (str(build / f"check{suffix}"),)),
    )


_LIBRARY_NAME = re.compile(r"\.(so(\.\d+)*|dll|pyd)$", re.IGNORECASE)


@dataclass(frozen=True)
class CodeChecker:
    """A checker that finds out if libraries have machine code for the targets of the job."""

    job: ValidateJob
    knowledge: Knowledge
    reader: MachineCodeReader

    def check_torch(self, wheel: Wheel) -> ValidationResult:
        """Check the machine code of all libraries of torch, as one check."""
        name = "machine_code"
        if wheel.cuda is None:
            return ValidationResult(name, "not run", NO_CUDA)
        if not self.job.targets:
            return ValidationResult(name, "not run", NO_TARGET)
        folder = Path(wheel.prefix or wheel.folder)
        paths = [folder / "lib" / file for file in KERNELS[self.job.system]]
        kernels = next((path for path in paths if path.is_file()), paths[0])
        if not kernels.is_file():
            detail = f"torch for CUDA {wheel.cuda} has no {kernels}"
            remedy = f"install torch again: {self.job.build_command}"
            return ValidationResult(name, "failed", detail, remedy)
        others = _list_other_libraries(folder, kernels)
        parts = [self._check_library(kernels, name, wheel.cuda, "kernels")]
        parts += [self._check_library(path, name, wheel.cuda, "secondary") for path in others]
        return self._add_reader_name(combine_checks(name, parts))

    def check_extension(self, extension: BuiltExtension, maker: str | None) -> ValidationResult:
        """Check the libraries of an extension. `maker` is the CUDA release that compiled them."""
        name = f"{extension.name}: machine code"
        if extension.status == "unreachable":
            return ValidationResult(name, "not run", _UNREACHABLE)
        if not self.job.targets:
            return ValidationResult(name, "not run", NO_TARGET)
        paths = map(Path, extension.libraries)
        checks = [self._check_library(path, name, maker, "extension") for path in paths]
        result = combine_checks(name, checks)
        if result.status == "not run" and extension.needs_code:
            remedy = f"build the extension again: {self.job.build_command}"
            result = replace(result, status="failed", remedy=remedy)
        return self._add_reader_name(result)

    def _check_library(
        self,
        library: Path,
        name: str,
        maker: str | None,
        role: Literal["kernels", "secondary", "extension"],
    ) -> ValidationResult:
        """Check that the library has code for every target.

        `role` is "kernels" for torch's main GPU library, "secondary" for its others, which fail
        only if they cannot be read. For torch, most kernels must have code for an arch.
        """
        try:
            images = self.reader.read_images(library)
        except BadArtifactError as error:
            detail = f"{error.location}: {error.message}"
            return ValidationResult(name, "failed", detail, error.hint)
        if not images.cubins and not images.ptx:
            status: CheckStatus = "failed" if role == "kernels" else "not run"
            return ValidationResult(name, status, f"{library.name} holds no device code")
        code = images.code if role == "extension" else images.common_code
        targets = select_library_targets(library.name, self.job.targets)
        check = check_coverage(self.knowledge, name, code, targets, library.name, maker)
        if role != "secondary" or check.status != "failed":
            return check
        return ValidationResult(name, "passed", f"{check.detail}, which only a few functions need")

    def _add_reader_name(self, check: ValidationResult) -> ValidationResult:
        if check.status == "not run":
            return check
        return replace(check, detail=f"{check.detail} (by {self.reader})")


def _list_other_libraries(folder: Path, kernels: Path) -> Iterator[Path]:
    """Yield each library with device code except `kernels`. Links to the same file are skipped."""
    paths = {kernels.resolve()}
    for path in sorted(folder.rglob("*")):
        if _LIBRARY_NAME.search(path.name) and path.is_file() and path.resolve() not in paths:
            paths.add(path.resolve())
            try:
                if machine_code_io.has_device_code(path):
                    yield path
            except BadArtifactError:
                yield path  # the reader reports the error


def find_code_reader(deps: DepsManifest, wheel: Wheel) -> MachineCodeReader:
    """Return a reader of machine code, with the cuobjdump of the toolkit, of triton or on PATH."""
    program = "cuobjdump.exe" if sys.platform == "win32" else "cuobjdump"
    triton = Path(wheel.folder).parent / "triton" / "backends" / "nvidia" / "bin"
    paths = (deps.cuobjdump or "", str(triton / program), shutil.which(program) or "")
    return MachineCodeReader(next((path for path in paths if Path(path).is_file()), ""))
