"""Check the machine (system, memory, swap, encoding, ignored variables) and Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.core.text_formatting import format_size
from tasks.doctor import check_result
from tasks.knowledge.costs import estimate_cost
from tasks.knowledge.resource_estimates import (
    CUDA_COMPILER_MIB,
    CXX_COMPILER_MIB,
    SWAP_ADVISED_BELOW,
)
from tasks.knowledge.versions import parse_major_minor

if TYPE_CHECKING:
    from tasks.doctor.host_facts import HostFacts, InstalledExtension, Memory, ShadowingTorch
    from tasks.knowledge import Knowledge
    from tasks.lock.opened_profile_io import Profile

_SUPPORTED_MACHINES = {"x86_64", "aarch64", "arm64"}
# Official wheels are tagged manylinux_2_28 (PEP 600: glibc 2.28); there is no musl wheel
_MIN_GLIBC = (2, 28)
# Child processes get no variable that changes the compilation (tasks/system/shell.py)
_SETTINGS_BY_VARIABLE = {
    "TORCH_CUDA_ARCH_LIST": "target.gpus",
    "MAX_JOBS": "build.jobs",
    "CC": "build.env.CC",
    "CXX": "build.env.CXX",
    "CFLAGS": "build.env.CFLAGS",
    "CXXFLAGS": "build.env.CXXFLAGS",
    "NVCC_APPEND_FLAGS": "build.env.NVCC_APPEND_FLAGS",
    "CMAKE_ARGS": "build.env.CMAKE_ARGS",
    "CUDAHOSTCXX": "build.env.CUDAHOSTCXX",
}


def check_machine(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check os, memory, swap, locale and variables."""
    yield _check_os(s, profile)
    yield from _check_memory_and_swap(s, profile, knowledge)
    yield _check_locale(s)
    yield _check_variables(s)


def _check_os(s: HostFacts, profile: Profile | None) -> check_result.CheckResult:
    if s.os_release is None:
        return check_result.report_unchecked("os")
    name = f"{s.os_release}, {s.host.machine}" + (", in WSL" if s.wsl else "")
    prebuilt = profile is not None and profile.choice.strategy == "prebuilt"
    cuda = profile is None or bool(profile.choice.targets)
    report = (
        check_result.report_problem if cuda else check_result.report_warning
    )  # a CPU build may still work there
    if s.host.machine not in _SUPPORTED_MACHINES:
        hint = "build on x86_64 or aarch64 (a 64-bit system)"
        return report("os", f"{name}: there is no torch with CUDA for this processor", hint)
    if s.host.system == "windows" and s.host.machine != "x86_64":
        hint = "build on an x86_64 Windows, or on Linux"
        return report("os", f"{name}: CUDA on Windows is for x86_64 alone", hint)
    if s.host.system == "linux" and s.glibc is not None and prebuilt:
        if not s.glibc:
            hint = "choose torch.strategy: source, or a distribution with glibc"
            return check_result.report_problem(
                "os", f"{name}, with no glibc: official wheels need it", hint
            )
        if parse_major_minor(s.glibc) < _MIN_GLIBC:
            hint = "use a newer distribution, or choose torch.strategy: source"
            message = f"{name}, glibc {s.glibc}: official wheels are made for 2.28 and later"
            return check_result.report_warning("os", message, hint)
    return check_result.report_ok("os", f"{name}, glibc {s.glibc}" if s.glibc else name)


def _check_memory_and_swap(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    if s.memory is None:
        yield check_result.report_unchecked("memory")
        yield check_result.report_unchecked("swap")
        return
    yield _check_memory(s.memory, profile, knowledge)
    yield _check_swap(s, s.memory, profile)


def _check_memory(
    memory: Memory, profile: Profile | None, knowledge: Knowledge
) -> check_result.CheckResult:
    with_cuda = profile is None or profile.choice.toolkit.provider != "none"
    compiler_mib = CUDA_COMPILER_MIB if with_cuda else CXX_COMPILER_MIB
    jobs = max(1, min(memory.cores, memory.available_mib // compiler_mib))
    is_limited = memory.limit_mib < memory.total_mib
    memory_kind = (
        f"a limit of {format_size(memory.limit_mib)} (a container or service)"
        if is_limited
        else "memory"
    )
    message = (
        f"{format_size(memory.available_mib)} free of "
        f"{memory_kind if is_limited else format_size(memory.limit_mib)}"
    )
    message += (
        f"; {memory.cores} cores: about {jobs} {'compilers' if jobs > 1 else 'compiler'} at once"
    )
    is_compiled = profile is not None and profile.choice.strategy == "source"
    total_mib = memory.limit_mib + (memory.swap_mib or 0)
    torch_mib, kernel_mib = (
        estimate_cost(knowledge, "source", archs, 0).memory_mib for archs in (0, 1)
    )
    if total_mib < torch_mib and is_compiled:
        hint = "raise the limit, or build on a machine with more memory"
        return check_result.report_problem(
            "memory", f"{message}; a compiler of torch takes up to {format_size(torch_mib)}", hint
        )
    if total_mib < kernel_mib and is_compiled and with_cuda:
        return check_result.report_warning(
            "memory",
            f"{message}; a kernel of flash-attention takes up to {format_size(kernel_mib)}",
            "add swap, or leave those kernels out: build.flags: {USE_FLASH_ATTENTION: false, "
            "USE_MEM_EFF_ATTENTION: false}",
        )
    if memory.cores > 1 and jobs == 1:
        hint = "close other programs, or expect it to take long: one compiler at a time"
        return check_result.report_warning("memory", message, hint)
    return check_result.report_ok("memory", message)


def _check_swap(s: HostFacts, memory: Memory, profile: Profile | None) -> check_result.CheckResult:
    """Check the swap, which links and jobs larger than forecast may need."""
    if memory.swap_mib is None:
        return check_result.report_unchecked("swap", "this system does not tell")
    message = f"{format_size(memory.swap_mib)} of swap" if memory.swap_mib else "no swap"
    is_compiled = profile is not None and profile.choice.strategy == "source"
    if memory.swap_mib or memory.limit_mib >= SWAP_ADVISED_BELOW or not is_compiled:
        return check_result.report_ok("swap", message)
    if s.host.system == "windows":
        hint = check_result.format_command(
            "SystemPropertiesPerformance.exe", "set a page file of 16 GB or more:"
        )
    elif s.wsl:
        hint = check_result.format_command(
            "wsl --shutdown",
            "write swap=16GB under [wsl2] in %UserProfile%\\.wslconfig, then in Windows:",
        )
    else:
        hint = check_result.format_command(
            "sudo fallocate -l 16G /swapfile && sudo chmod 600 /swapfile && "
            "sudo mkswap /swapfile && sudo swapon /swapfile"
        )
    return check_result.report_warning(
        "swap", f"{message}, and {format_size(memory.limit_mib)} of memory", hint
    )


def _check_locale(s: HostFacts) -> check_result.CheckResult:
    if s.encoding is None:
        return check_result.report_unchecked("locale")
    if s.host.system == "windows" or s.encoding.lower().replace("-", "") == "utf8":
        return check_result.report_ok("locale", s.encoding)
    hint = check_result.format_command("export LC_ALL=C.UTF-8")
    return check_result.report_warning(
        "locale", f"{s.encoding}: names and messages beyond it are spelt wrongly", hint
    )


def _check_variables(s: HostFacts) -> check_result.CheckResult:
    """Check for environment variables that builds ignore."""
    if s.environ is None:
        return check_result.report_unchecked("variables")
    settings = {name: key for name, key in _SETTINGS_BY_VARIABLE.items() if s.variables.get(name)}
    if not settings:
        return check_result.report_ok("variables", "none is set that would not count")
    variable_names = " and ".join(settings)
    keys = ", ".join(f"{key} for {name}" for name, key in settings.items())
    return check_result.report_warning(
        "variables", f"{variable_names} set, which no build here gets to see", f"set {keys}"
    )


def check_python(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check python, uv, torch-shadow and names."""
    yield _check_interpreter(s)
    yield _check_uv(s)
    yield from _check_shadowing_torches(s)
    yield from _check_extension_names(s, profile, knowledge)


def _check_interpreter(s: HostFacts) -> check_result.CheckResult:
    python = s.host.python
    message = f"{python.version} at {python.path}"
    if s.python_bits is None:
        return check_result.report_unchecked(
            "python", f"{message}; whether it is 64-bit could not be asked"
        )
    if s.python_bits != 64:
        hint = (
            f'install a 64-bit Python {python.version.rpartition(".")[0]}, and name it in "python"'
        )
        return check_result.report_problem(
            "python", f"{message} is {s.python_bits}-bit, and torch is not", hint
        )
    if s.host.system == "windows" and "WindowsApps" in python.path:
        hint = check_result.format_command(
            "winget install Python.Python.3.12", "take the one of python.org:"
        )
        return check_result.report_warning(
            "python", f"{message} is the Store's: it lies in a closed folder", hint
        )
    return check_result.report_ok("python", f"{message}, 64-bit")


def _check_uv(s: HostFacts) -> check_result.CheckResult:
    if s.uv is None:
        return check_result.report_unchecked("uv")
    if s.uv.path:
        return check_result.report_ok("uv", s.uv.path)
    return check_result.report_warning(
        "uv", "cannot run: pip does its work, slower", check_result.format_command("pip install uv")
    )


def _check_shadowing_torches(s: HostFacts) -> Iterator[check_result.CheckResult]:
    if s.shadows is None:
        yield check_result.report_unchecked("torch-shadow")
        return
    if not s.shadows:
        yield check_result.report_ok("torch-shadow", "no other torch is in the way")
    yield from (_report_shadowing_torch(s, shadow) for shadow in s.shadows)


def _report_shadowing_torch(s: HostFacts, shadow: ShadowingTorch) -> check_result.CheckResult:
    version = f" {shadow.version}" if shadow.version else ""
    description = f"torch{version} at {shadow.path}"
    windows = s.host.system == "windows"
    match shadow.how:
        case "PYTHONPATH":
            message = (
                f"{description} is on PYTHONPATH: it is imported instead of the one that is built"
            )
            hint = check_result.format_command(
                "Remove-Item Env:PYTHONPATH" if windows else "unset PYTHONPATH"
            )
        case "conda":
            message = f"{description} is in the active conda environment"
            hint = check_result.format_command("conda deactivate")
        case "user site":
            message = (
                f"{description} is installed for the user: an interpreter without a venv finds it"
            )
            hint = check_result.format_command(f"{s.host.python.path} -m pip uninstall torch")
        case "checkout":
            message = f"{shadow.path} is what import torch finds for who is in the checkout"
            hint = "move it elsewhere, or give it another name"
    return check_result.report_warning("torch-shadow", message, hint)


def _check_extension_names(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[check_result.CheckResult]:
    """Check for names of other projects on the index (config/knowledge/extensions.yaml)."""
    if s.installed is None:
        yield check_result.report_unchecked(
            "names", "the profile does not open" if profile is None else "nobody asked"
        )
        return
    other_projects = [
        item for item in s.installed if item.indexed and _is_other_project(item.name, knowledge)
    ]
    for item in other_projects:
        yield _report_other_project(s, item, knowledge)
    if not other_projects:
        yield check_result.report_ok(
            "names", "no package of another project under an extension's name"
        )


def _is_other_project(name: str, knowledge: Knowledge) -> bool:
    fact = knowledge.extensions.get(name)
    return fact is not None and fact.pypi != "own"


def _report_other_project(
    s: HostFacts, item: InstalledExtension, knowledge: Knowledge
) -> check_result.CheckResult:
    hint = check_result.format_command(f"{s.host.python.path} -m pip uninstall {item.name}")
    extension = knowledge.extensions[item.name]
    reason = extension.warnings[0] if extension.warnings else "it came from the package index"
    message = f"{item.name} {item.version} in {item.folder} came from the package index. {reason}"
    return check_result.report_warning("names", message, hint)
