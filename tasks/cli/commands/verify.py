"""`doit verify WHEEL`: check a wheel against its records without installing anything."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import TorchyardError, ValidationFailedError
from tasks.core.model import ValidationResult
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.validate import check_results
from tasks.stages.wheel.model import Wheel
from tasks.system import manifests, screen
from tasks.system.output import print_report
from tasks.wheels.machine_code_io import MachineCodeReader
from tasks.wheels.wheel_checks import RecordedWheel, check_wheel
from tasks.wheels.wheel_inspection_io import inspect_wheel


def run(subject: SelectedProfile, wheel: str = "", wheels: Sequence[str] = ()) -> None:
    """Print the check results of all wheels. Raises `ValidationFailedError` if a check failed."""
    paths = [Path(one) for one in (wheel, *wheels) if one]
    if not paths:
        raise TorchyardError("no wheel is named", hint="name it: doit verify wheelhouse/NAME.whl")
    knowledge = load_knowledge(Path(subject.project.knowledge))
    columns = screen.read_terminal_width(screen.WIDE_COLUMNS, sys.maxsize)
    results: list[ValidationResult] = []
    for path in paths:
        if not path.is_file():
            raise TorchyardError("this wheel does not exist", location=str(path))
        info = inspect_wheel(path, _create_code_reader(subject))
        wheel_results = list(check_wheel(info, _find_recorded_wheel(subject, path), knowledge))
        rows = check_results.format_check_rows(wheel_results, columns, screen.colour_text)
        for line in (path.name, *rows):
            print_report(line)
        results += wheel_results
    if failed := [check for check in results if check.status == "failed"]:
        names, location = ", ".join(one.name for one in failed), ", ".join(it.name for it in paths)
        message = f"{len(failed)} of {len(results)} checks failed: {names}"
        hint = check_results.join_hints(failed)
        raise ValidationFailedError(message, location=location, hint=hint)


def _create_code_reader(subject: SelectedProfile) -> MachineCodeReader:
    """Return a reader with the build's cuobjdump, or the default reader if nothing was built."""
    if subject.opened:
        manifest = subject.opened.layout.compute_manifest_path("deps")
        with suppress(TorchyardError):
            deps = manifests.read_manifest(manifest, DepsManifest)
            return MachineCodeReader(deps.cuobjdump or "")
    return MachineCodeReader()


def _find_recorded_wheel(subject: SelectedProfile, wheel: Path) -> RecordedWheel:
    """Return the record of `wheel`, found by its file name in the manifests of this profile."""
    if subject.opened is None:
        return RecordedWheel(why=f"profile {subject.name} cannot be loaded")
    plan = subject.opened.plan
    for stage in (*plan.find_stages("wheel"), *plan.find_stages("extensions")):
        kind: Any = Wheel if stage.kind == "wheel" else BuiltExtension
        with suppress(TorchyardError):
            manifest = manifests.read_manifest(stage.outputs[0], kind)
            if manifest.artifact and manifest.artifact.name == wheel.name:
                return RecordedWheel(manifest.artifact, getattr(manifest, "archs", None) or {})
    return RecordedWheel(why=f"profile {subject.name} built no wheel of that name")
