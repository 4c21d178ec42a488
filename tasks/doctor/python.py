"""The interpreter, uv, and the other torches and packages that it would find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.doctor.symptom import Symptom, command, ok, problem, unchecked, warning

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Installed, Shadow, Surroundings
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile


def judge(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Iterator[Symptom]:
    """python, uv, torch-shadow, names."""
    yield _python(s)
    yield _uv(s)
    yield from _shadows(s)
    yield from _names(s, profile, knowledge)


def _python(s: Surroundings) -> Symptom:
    python = s.host.python
    seen = f"{python.version} at {python.path}"
    if s.python_bits is None:
        return unchecked("python", f"{seen}; whether it is 64-bit could not be asked")
    if s.python_bits != 64:
        todo = (
            f'install a 64-bit Python {python.version.rpartition(".")[0]}, and name it in "python"'
        )
        return problem("python", f"{seen} is {s.python_bits}-bit, and torch is not", todo)
    if s.host.system == "windows" and "WindowsApps" in python.path:
        todo = command("winget install Python.Python.3.12", "take the one of python.org:")
        return warning("python", f"{seen} is the Store's: it lies in a closed folder", todo)
    return ok("python", f"{seen}, 64-bit")


def _uv(s: Surroundings) -> Symptom:
    if s.uv is None:
        return unchecked("uv")
    if s.uv.path:
        return ok("uv", s.uv.path)
    return warning("uv", "cannot run: pip does its work, slower", command("pip install uv"))


def _shadows(s: Surroundings) -> Iterator[Symptom]:
    if s.shadows is None:
        yield unchecked("torch-shadow")
        return
    if not s.shadows:
        yield ok("torch-shadow", "no other torch is in the way")
    yield from (_shadow(s, shadow) for shadow in s.shadows)


def _shadow(s: Surroundings, shadow: Shadow) -> Symptom:
    version = f" {shadow.version}" if shadow.version else ""
    where = f"torch{version} at {shadow.path}"
    windows = s.host.system == "windows"
    match shadow.how:
        case "PYTHONPATH":
            seen = f"{where} is on PYTHONPATH: it is imported instead of the one that is built"
            todo = command("Remove-Item Env:PYTHONPATH" if windows else "unset PYTHONPATH")
        case "conda":
            seen = f"{where} is in the active conda environment"
            todo = command("conda deactivate")
        case "user site":
            seen = f"{where} is installed for the user: an interpreter without a venv finds it"
            todo = command(f"{s.host.python.path} -m pip uninstall torch")
        case "checkout":
            seen = f"{shadow.path} is what import torch finds for who is in the checkout"
            todo = "move it elsewhere, or give it another name"
    return warning("torch-shadow", seen, todo)


def _names(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Iterator[Symptom]:
    """Names that mean another project on the index (config/knowledge/extensions.yaml)."""
    if s.installed is None:
        yield unchecked("names", "the profile does not open" if profile is None else "nobody asked")
        return
    wrong = [item for item in s.installed if item.indexed and _is_anothers(item.name, knowledge)]
    for item in wrong:
        yield _wrong(s, item, knowledge)
    if not wrong:
        yield ok("names", "no package of another project under an extension's name")


def _is_anothers(name: str, knowledge: Knowledge) -> bool:
    fact = knowledge.extensions.get(name)
    return fact is not None and fact.pypi != "own"


def _wrong(s: Surroundings, item: Installed, knowledge: Knowledge) -> Symptom:
    todo = command(f"{s.host.python.path} -m pip uninstall {item.name}")
    fact = knowledge.extensions[item.name]
    why = fact.warnings[0] if fact.warnings else "it came from the package index"
    seen = f"{item.name} {item.version} in {item.folder} came from the package index. {why}"
    return warning("names", seen, todo)
