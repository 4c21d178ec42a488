"""The interpreter, uv, and the other torches and packages that it would find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.doctor.symptom import (
    CheckResult,
    format_command,
    report_ok,
    report_problem,
    report_unchecked,
    report_warning,
)

if TYPE_CHECKING:
    from tasks.doctor.host_facts import HostFacts, InstalledExtension, ShadowingTorch
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile


def check_python(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[CheckResult]:
    """python, uv, torch-shadow, names."""
    yield _check_interpreter(s)
    yield _check_uv(s)
    yield from _check_shadowing_torches(s)
    yield from _check_extension_names(s, profile, knowledge)


def _check_interpreter(s: HostFacts) -> CheckResult:
    python = s.host.python
    seen = f"{python.version} at {python.path}"
    if s.python_bits is None:
        return report_unchecked("python", f"{seen}; whether it is 64-bit could not be asked")
    if s.python_bits != 64:
        todo = (
            f'install a 64-bit Python {python.version.rpartition(".")[0]}, and name it in "python"'
        )
        return report_problem("python", f"{seen} is {s.python_bits}-bit, and torch is not", todo)
    if s.host.system == "windows" and "WindowsApps" in python.path:
        todo = format_command("winget install Python.Python.3.12", "take the one of python.org:")
        return report_warning("python", f"{seen} is the Store's: it lies in a closed folder", todo)
    return report_ok("python", f"{seen}, 64-bit")


def _check_uv(s: HostFacts) -> CheckResult:
    if s.uv is None:
        return report_unchecked("uv")
    if s.uv.path:
        return report_ok("uv", s.uv.path)
    return report_warning(
        "uv", "cannot run: pip does its work, slower", format_command("pip install uv")
    )


def _check_shadowing_torches(s: HostFacts) -> Iterator[CheckResult]:
    if s.shadows is None:
        yield report_unchecked("torch-shadow")
        return
    if not s.shadows:
        yield report_ok("torch-shadow", "no other torch is in the way")
    yield from (_report_shadowing_torch(s, shadow) for shadow in s.shadows)


def _report_shadowing_torch(s: HostFacts, shadow: ShadowingTorch) -> CheckResult:
    version = f" {shadow.version}" if shadow.version else ""
    where = f"torch{version} at {shadow.path}"
    windows = s.host.system == "windows"
    match shadow.how:
        case "PYTHONPATH":
            seen = f"{where} is on PYTHONPATH: it is imported instead of the one that is built"
            todo = format_command("Remove-Item Env:PYTHONPATH" if windows else "unset PYTHONPATH")
        case "conda":
            seen = f"{where} is in the active conda environment"
            todo = format_command("conda deactivate")
        case "user site":
            seen = f"{where} is installed for the user: an interpreter without a venv finds it"
            todo = format_command(f"{s.host.python.path} -m pip uninstall torch")
        case "checkout":
            seen = f"{shadow.path} is what import torch finds for who is in the checkout"
            todo = "move it elsewhere, or give it another name"
    return report_warning("torch-shadow", seen, todo)


def _check_extension_names(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[CheckResult]:
    """Names that mean another project on the index (config/knowledge/extensions.yaml)."""
    if s.installed is None:
        yield report_unchecked(
            "names", "the profile does not open" if profile is None else "nobody asked"
        )
        return
    wrong = [
        item for item in s.installed if item.indexed and _is_other_project(item.name, knowledge)
    ]
    for item in wrong:
        yield _report_other_project(s, item, knowledge)
    if not wrong:
        yield report_ok("names", "no package of another project under an extension's name")


def _is_other_project(name: str, knowledge: Knowledge) -> bool:
    fact = knowledge.extensions.get(name)
    return fact is not None and fact.pypi != "own"


def _report_other_project(
    s: HostFacts, item: InstalledExtension, knowledge: Knowledge
) -> CheckResult:
    todo = format_command(f"{s.host.python.path} -m pip uninstall {item.name}")
    fact = knowledge.extensions[item.name]
    why = fact.warnings[0] if fact.warnings else "it came from the package index"
    seen = f"{item.name} {item.version} in {item.folder} came from the package index. {why}"
    return report_warning("names", seen, todo)
