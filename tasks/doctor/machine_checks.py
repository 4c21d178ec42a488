"""Check the machine, Python, build tools and compilers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from tasks.core.check_ids import CheckId
from tasks.core.deps_model import MIN_NINJA_VERSION
from tasks.core.errors import KnowledgeError
from tasks.core.text_formatting import format_size
from tasks.doctor import check_result
from tasks.doctor.check_result import report_ok, report_problem, report_unchecked, report_warning
from tasks.doctor.host_facts import VARIABLES
from tasks.knowledge import resource_estimates as estimates
from tasks.knowledge.costs import estimate_cost
from tasks.knowledge.host_compilers import MSVC_INSTALL_COMMAND
from tasks.knowledge.torch_releases import find_release
from tasks.knowledge.versions import parse_major_minor

if TYPE_CHECKING:
    from tasks.core.deps_model import DepsJob
    from tasks.doctor.check_result import CheckResult, Results
    from tasks.doctor.host_facts import HostFacts, Memory, ShadowingTorch
    from tasks.knowledge import Knowledge
    from tasks.lock.opened_profile_io import Profile

_SUPPORTED_MACHINES = {"x86_64", "aarch64", "arm64"}
# Official wheels have the tag manylinux_2_28 (PEP 600: glibc 2.28); none is for musl
_MIN_GLIBC = (2, 28)
# Child processes do not inherit variables that affect compilation (tasks/system/shell.py)
_SETTINGS_BY_VARIABLE = {
    **{name: f"build.env.{name}" for name in VARIABLES},
    "TORCH_CUDA_ARCH_LIST": "target.gpus",
    "MAX_JOBS": "build.jobs",
}


def check_machine(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Yield the results of the checks `os`, `memory`, `swap`, `locale` and `variables`."""
    yield _check_os(s, profile)
    if s.memory is None:
        yield report_unchecked("memory")
        yield report_unchecked("swap")
    else:
        yield _check_memory(s.memory, profile, knowledge)
        yield _check_swap(s, s.memory, profile)
    if s.encoding is None:
        yield report_unchecked("locale")
    elif s.host.system == "windows" or s.encoding.lower().replace("-", "") == "utf8":
        yield report_ok("locale", s.encoding)
    else:
        message = f"{s.encoding} cannot represent all characters of names and messages"
        hint = check_result.format_command("export LC_ALL=C.UTF-8")
        yield report_warning("locale", message, hint)
    yield _check_variables(s)


def _check_os(s: HostFacts, profile: Profile | None) -> CheckResult:
    if s.os_release is None:
        return report_unchecked("os")
    name = f"{s.os_release}, {s.host.machine}" + (", in WSL" if s.wsl else "")
    needs_cuda = profile is None or bool(profile.choice.targets)
    report = report_problem if needs_cuda else report_warning  # a CPU build may still work
    if s.host.machine not in _SUPPORTED_MACHINES:
        hint = "build on x86_64 or aarch64 (a 64-bit system)"
        return report("os", f"{name}: no torch with CUDA exists for this processor", hint)
    if s.host.system == "windows" and s.host.machine != "x86_64":
        hint = "build on an x86_64 Windows, or on Linux"
        return report("os", f"{name}: CUDA on Windows supports x86_64 only", hint)
    prebuilt = profile is not None and profile.choice.strategy == "prebuilt"
    if s.host.system == "linux" and s.glibc is not None and prebuilt:
        if not s.glibc:
            hint = "set torch.strategy: source, or use a distribution with glibc"
            return report_problem("os", f"{name}, without glibc: official wheels need glibc", hint)
        if parse_major_minor(s.glibc) < _MIN_GLIBC:
            hint = "use a newer distribution, or set torch.strategy: source"
            message = f"{name}, glibc {s.glibc}: official wheels need glibc 2.28 or later"
            return report_warning("os", message, hint)
    return report_ok("os", f"{name}, glibc {s.glibc}" if s.glibc else name)


def _check_memory(memory: Memory, profile: Profile | None, knowledge: Knowledge) -> CheckResult:
    with_cuda = profile is None or profile.choice.toolkit.provider != "none"
    compiler_mib = estimates.CUDA_COMPILER_MIB if with_cuda else estimates.CXX_COMPILER_MIB
    jobs = max(1, min(memory.cores, memory.available_mib // compiler_mib))
    size = format_size(memory.limit_mib)
    if memory.limit_mib < memory.total_mib:
        size = f"a limit of {size} (set by a container or service)"
    compilers = f"about {jobs} compiler{'s' * (jobs > 1)} at once"
    free = format_size(memory.available_mib)
    message = f"{free} free of {size}; {memory.cores} cores: {compilers}"
    if _compiles_torch(profile):
        total_mib = memory.limit_mib + (memory.swap_mib or 0)
        costs = (estimate_cost(knowledge, "source", archs, 0) for archs in (0, 1))
        torch_mib, kernel_mib = (cost.memory_mib for cost in costs)
        if total_mib < torch_mib:
            message += f"; a compiler of torch takes up to {format_size(torch_mib)}"
            hint = "raise the limit, or build on a machine with more memory"
            return report_problem("memory", message, hint)
        if total_mib < kernel_mib and with_cuda:
            message += f"; a kernel of flash-attention takes up to {format_size(kernel_mib)}"
            flags = "{USE_FLASH_ATTENTION: false, USE_MEM_EFF_ATTENTION: false}"
            hint = f"add swap, or leave those kernels out: build.flags: {flags}"
            return report_warning("memory", message, hint)
    if memory.cores > 1 and jobs == 1:
        hint = "close other programs, or expect a long build with one compiler at a time"
        return report_warning("memory", message, hint)
    return report_ok("memory", message)


def _compiles_torch(profile: Profile | None) -> bool:
    return profile is not None and profile.choice.strategy == "source"


def _check_swap(s: HostFacts, memory: Memory, profile: Profile | None) -> CheckResult:
    """Warn if a machine with little memory would compile torch without swap space."""
    if memory.swap_mib is None:
        return report_unchecked("swap", "this system does not report the size of its swap")
    message = f"{format_size(memory.swap_mib)} of swap" if memory.swap_mib else "no swap"
    if (
        memory.swap_mib
        or memory.limit_mib >= estimates.SWAP_ADVISED_BELOW
        or not _compiles_torch(profile)
    ):
        return report_ok("swap", message)
    if s.host.system == "windows":
        command = "SystemPropertiesPerformance.exe"
        hint = check_result.format_command(command, "set a page file of 16 GB or more:")
    elif s.wsl:
        steps = "write swap=16GB under [wsl2] in %UserProfile%\\.wslconfig, then run in Windows:"
        hint = check_result.format_command("wsl --shutdown", steps)
    else:
        command = "sudo fallocate -l 16G /swapfile && sudo chmod 600 /swapfile && "
        command += "sudo mkswap /swapfile && sudo swapon /swapfile"
        hint = check_result.format_command(command)
    message = f"{message}, and {format_size(memory.limit_mib)} of memory"
    return report_warning("swap", message, hint)


def _check_variables(s: HostFacts) -> CheckResult:
    """Warn about environment variables that builds ignore."""
    if s.environ is None:
        return report_unchecked("variables")
    settings = {name: key for name, key in _SETTINGS_BY_VARIABLE.items() if s.environ.get(name)}
    if not settings:
        return report_ok("variables", "no environment variable is set that builds would ignore")
    keys = ", ".join(f"{key} instead of {name}" for name, key in settings.items())
    return report_warning("variables", f"builds ignore {' and '.join(settings)}", f"set {keys}")


def check_python(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Yield the results of the checks `python`, `uv`, `torch-shadow` and `names`."""
    yield _check_interpreter(s)
    if s.uv is None:
        yield report_unchecked("uv")
    elif s.uv.path:
        yield report_ok("uv", s.uv.path)
    else:
        message = "uv cannot run, so pip installs packages, which is slower"
        yield report_warning("uv", message, check_result.format_command("pip install uv"))
    if s.shadows is None:
        yield report_unchecked("torch-shadow")
    elif not s.shadows:
        yield report_ok("torch-shadow", "no other torch can be imported by mistake")
    yield from (_report_shadowing_torch(s, shadow) for shadow in s.shadows or ())
    yield from _check_extension_names(s, profile, knowledge)


def _check_interpreter(s: HostFacts) -> CheckResult:
    python = s.host.python
    message = f"{python.version} at {python.path}"
    if s.python_bits is None:
        return report_unchecked("python", f"{message} does not report whether it is 64-bit")
    if s.python_bits != 64:
        minor = python.version.rpartition(".")[0]
        hint = f'install a 64-bit Python {minor}, and name it in "python"'
        message += f" is {s.python_bits}-bit, but torch needs 64-bit"
        return report_problem("python", message, hint)
    if s.host.system == "windows" and "WindowsApps" in python.path:
        message += " comes from the Microsoft Store, which protects its folder"
        command = "winget install Python.Python.3.12"
        hint = check_result.format_command(command, "install Python from python.org:")
        return report_warning("python", message, hint)
    return report_ok("python", f"{message}, 64-bit")


def _report_shadowing_torch(s: HostFacts, shadow: ShadowingTorch) -> CheckResult:
    message = f"torch {shadow.version}".rstrip() + f" at {shadow.path}"
    match shadow.how:
        case "PYTHONPATH":
            message += " is on PYTHONPATH, so Python imports it instead of the built torch"
            windows = s.host.system == "windows"
            hint = "  Remove-Item Env:PYTHONPATH" if windows else "  unset PYTHONPATH"
        case "conda":
            message += " is in the active conda environment"
            hint = "  conda deactivate"
        case "user site":
            message += " is installed for this user, so Python imports it outside of a venv"
            hint = f"  {s.host.python.path} -m pip uninstall torch"
        case "checkout":
            message = f"Python imports {shadow.path} as torch if it runs in the checkout"
            hint = "move it elsewhere, or rename it"
    return report_warning("torch-shadow", message, hint)


def _check_extension_names(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Check `names`: warn about packages of other projects that have the name of an extension."""
    if s.installed is None:
        reason = (
            check_result.NO_PROFILE if profile is None else "installed packages were not inspected"
        )
        yield report_unchecked("names", reason)
        return
    has_conflict = False
    indexed = [(item, knowledge.extensions.get(item.name)) for item in s.installed if item.indexed]
    for item, extension in indexed:
        if extension is None or extension.pypi == "own":
            continue
        has_conflict = True
        message = f"{item.name} {item.version} in {item.folder} came from the package index"
        message += f". {extension.warnings[0]}" if extension.warnings else ""
        hint = check_result.format_command(f"{s.host.python.path} -m pip uninstall {item.name}")
        yield report_warning("names", message, hint)
    if not has_conflict:
        yield report_ok("names", "no extension was installed from another project of the same name")


_REQUIRED_NINJA = Version(MIN_NINJA_VERSION)
_REINSTALL_HINT = check_result.format_command(
    "doit clean deps && doit deps", "install the build tools again:"
)


def check_build_tools(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Yield the results of the checks `git`, `cmake` and `ninja`."""
    yield _check_git(s, find_deps_job(profile), knowledge)
    yield _check_cmake(s, profile, knowledge)
    yield _check_ninja(s, profile)


def find_deps_job(profile: Profile | None) -> DepsJob | None:
    """Return the job of the `deps` stage, or None without a profile or without this stage."""
    stages = profile.plan.find_stages("deps") if profile else ()
    return next((stage.job for stage in stages), None)


def _check_git(s: HostFacts, job: DepsJob | None, knowledge: Knowledge) -> CheckResult:
    if s.git is None:
        return report_unchecked("git")
    if s.git.path:
        return report_ok("git", f"{s.git.version} at {s.git.path}")
    if s.host.system == "macos":
        hint = check_result.format_command("xcode-select --install")
    else:
        hint = check_result.format_install_hint(knowledge, s, "git")
    if job and job.git_needed:
        message = f"git is not installed, but is required {job.git_needed}"
        return report_problem("git", message, hint)
    return report_warning("git", "git is not installed, so no repository can be fetched", hint)


def _check_cmake(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> CheckResult:
    """Warn if the CMake in the build folder has a version that torch does not support."""
    if s.cmake is None:
        return report_unchecked("cmake")
    try:
        release = find_release(knowledge, profile.choice.torch) if profile else None
    except KnowledgeError:
        release = None
    minimum, upper_bound = (release.cmake_min, release.cmake_below) if release else ("3.27", "")
    required = f">={minimum}" + (f", <{upper_bound}" if upper_bound else "")
    build_version = f"the build installs its own ({required})"
    if not s.cmake.path:
        return report_ok("cmake", f"not installed; {build_version}")
    message = f"{s.cmake.version} at {s.cmake.path}"
    if not is_in_build_folder(s.cmake.path, profile):
        return report_ok("cmake", f"{message}; {build_version}")
    version = parse_tool_version(s.cmake.version)
    if version and version not in SpecifierSet(required, prereleases=True):
        message += f"; this torch needs {required}"
        return report_warning("cmake", message, _REINSTALL_HINT)
    return report_ok("cmake", message)


def _check_ninja(s: HostFacts, profile: Profile | None) -> CheckResult:
    if s.ninja is None:
        return report_unchecked("ninja")
    build_version = f"the build installs its own (>={_REQUIRED_NINJA})"
    if not s.ninja.path:
        return report_ok("ninja", f"not installed; {build_version}")
    message = f"{s.ninja.version} at {s.ninja.path}"
    version = parse_tool_version(s.ninja.version)
    if version is None or version >= _REQUIRED_NINJA:
        return report_ok("ninja", message)
    if not is_in_build_folder(s.ninja.path, profile):
        return report_ok("ninja", f"{message}; {build_version}")
    if s.host.system == "windows":
        message += ": Ninja 1.11.1 loops, and 1.13.0 breaks long link commands"
    else:
        message += ": before 1.13 Ninja has no jobserver, so memory cannot limit the jobs"
    return report_warning("ninja", message, _REINSTALL_HINT)


def is_in_build_folder(path: str, profile: Profile | None) -> bool:
    """Return True if the program `path` is in the build folder of the profile."""
    build = profile.layout.build if profile else None
    return build is not None and type(build)(path).is_relative_to(build)


def parse_tool_version(text: str) -> Version | None:
    """Parse a version that a tool printed; return None if it is not a valid version."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


_INSTALL_COMMANDS = {"windows": MSVC_INSTALL_COMMAND, "macos": "xcode-select --install"}


def check_compilers(s: HostFacts, profile: Profile | None, knowledge: Knowledge) -> Results:
    """Yield the results of the checks `compiler`, `visual-studio` and `windows-sdk`."""
    windows = s.host.system == "windows"
    if profile and not profile.choice.needs_compiler:
        checks: list[CheckId] = ["compiler", "visual-studio", "windows-sdk"]
        unneeded = checks if windows else checks[:1]
        yield from (report_ok(check, "not needed: nothing is compiled") for check in unneeded)
        return
    yield _check_compiler(s, knowledge)
    if not windows:
        return
    yield _check_visual_studio(s)
    if s.windows_sdk is None:
        yield report_unchecked("windows-sdk")
    elif s.windows_sdk:
        yield report_ok("windows-sdk", ", ".join(s.windows_sdk))
    else:
        message = "no Windows SDK is installed: it contains windows.h and the C libraries"
        steps = "install it with the recommended components:"
        hint = check_result.format_command(MSVC_INSTALL_COMMAND, steps)
        yield report_problem("windows-sdk", message, hint)


def _check_compiler(s: HostFacts, knowledge: Knowledge) -> CheckResult:
    if s.cxx is None:
        return report_unchecked("compiler")
    if s.cxx.path:
        reason = f": {s.cxx.why}" if s.cxx.why else ""
        return report_ok("compiler", f"{s.cxx.version} at {s.cxx.path}{reason}")
    command = _INSTALL_COMMANDS.get(s.host.system)
    install = (
        check_result.format_command(command)
        if command
        else check_result.format_install_hint(knowledge, s, "compiler")
    )
    message = s.cxx.why or "no C++ compiler is installed"
    return report_problem("compiler", message, s.cxx.todo or install)


def _check_visual_studio(s: HostFacts) -> CheckResult:
    if s.visual_studio is None:
        return report_unchecked("visual-studio", "vswhere could not be run")
    if usable := [studio for studio in s.visual_studio if studio.tools]:
        names = "; ".join(f"{one.name} {one.version}, C++ {one.tools}" for one in usable)
        return report_ok("visual-studio", names)
    if s.visual_studio:
        incomplete = s.visual_studio[0]
        message = f"{incomplete.name} {incomplete.version} lacks the workload for C++"
        setup = r'"%ProgramFiles(x86)%\Microsoft Visual Studio\Installer\setup.exe"'
        options = "--add Microsoft.VisualStudio.Workload.VCTools --includeRecommended --passive"
        command = f'{setup} modify --installPath "{incomplete.folder}" {options}'
        hint = check_result.format_command(command, "run in cmd:")
        return report_problem("visual-studio", message, hint)
    if s.cxx and s.cxx.path:
        message = "vswhere found no Visual Studio; the compiler comes from this command prompt"
        steps = "to build outside of this command prompt:"
        hint = check_result.format_command(MSVC_INSTALL_COMMAND, steps)
        return report_warning("visual-studio", message, hint)
    message = "no Visual Studio with the C++ tools is installed"
    hint = check_result.format_command(MSVC_INSTALL_COMMAND)
    return report_problem("visual-studio", message, hint)
