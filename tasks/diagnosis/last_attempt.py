"""Find the last attempt in a log: errors before it, or that the build overcame, do not count."""

import re
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from tasks.core.ninja_progress import find_step_output
from tasks.diagnosis.first_error import is_consequence, is_error
from tasks.diagnosis.log_lines import LogLine

_STEP_SUCCEEDED = re.compile(
    r"^\s*Successfully (?:installed|built|tagged|uninstalled) |^\s*Build succeeded|"
    r"^\s*Finished (?:in [\d.]+|[`']?\w+[`']? )|^-- Build files have been written|"
    r"^\s*Installed \d+ packages? in|^-- Install configuration|^\s*BUILD SUCCESSFUL|"
    r"^(?:=+ )?(?!.*\b(?:failed|errors?)\b)(?:\d+ [a-z]+, )*\d+ passed\b.* in [\d.]+s|"
    r"^OK(?: \([a-z =,\d]+\))?$|^\s*100% tests passed|^\[  PASSED  \] \d+ tests?\.$|"
    r"^Test passed[.!]$|^test result: ok\. |^configure: exit 0$|"
    r"^\[INFO\] BUILD SUCCESS|\bunreachable=0 +failed=0\b|^Fail: +0$|"
    r"(?:writing image|naming to) \S+ (?:\d[\d.]*s )?done$|^\s*0 Error\(s\)|"
    r"^\[100%\] Built target|^(?:Executing|Verifying) transaction: (?:\.\.\.working\.\.\. )?done|"
    r"^Submodule path '.*': checked out|^Writing \S+\.egg-info$|^Time to load \S+ op: |"
    r"^g?make(?:\[\d+\])?: \[.*\] Error \d+ \(ignored\)$|"
    r"Application startup complete|^Training (?:finished|complete)"
)
_BUILD_FAILED = re.compile(
    r"ninja: build stopped|Could not build wheels|failed-wheel-build|metadata-generation-failed|"
    r"Failed to build installable|Configuring incomplete|ERROR: failed to solve|"
    r"Could not install requirement|\*\*\* \[.*\] Error \d|^=+ .*\b(?:failed|errors?)\b.* in |"
    r"second time, aborting|Failed building wheel for |^\s*Failed to build |^\[  FAILED  \] "
)
_PACKAGES = re.compile(r"(?:required to install |wheels? for |[Ff]ailed to build |projects \()(.+)")
_INTERRUPTED = re.compile(r"^g?make(?:\[\d+\])?: \*\*\* .*\] Interrupt$")  # by the user
_COMMAND_LINE = re.compile(r"^\$ (?:/|[\"']?[A-Z]:\\)")  # how torchyard's logs begin each command
BUILD_PROGRESS = re.compile(  # printed by a program that continues after a warning
    r"""
      ^\s*(?:\[\s*\d+/\d+\]|(?:running|copying|adding|creating|building|removing|writing)\s
    | HEAD\sis\snow\sat | ==\s[\w\s]+\s==$
    | --\s(?:Configuring|Generating)\sdone | \#\d+\sDONE | Downloading\s\S+\.whl
    | .*:\sfinished\swith\sstatus\s'done' | (?:\S*[/-])?(?:g?cc|[gc]\+\+)\s-
    | Installing\sthe\scurrent\sproject | (?:\(.*?\)\s)?Resolved\s\d+\spackages?\sin\s
    # configure, make, packages of the system, conda, Spack and Homebrew
    | configure:\d+:\sresult:\s(?!no\b) | config\.status:\s(?:creating|executing)\s
    | (?:HOST)?(?:CC|CXX|LD|CCLD|CXXLD|AR|LINK)\s+(?:\[M\]\s+)?\w\S*$ | Setting\sup\s\S+\s\(
    | (?:Executing\stransaction:\s.*)?done$ | ==>\s\S+:\sExecuting\sphase | ==>\sPouring\s
    # downloads
    | .*\b100%\| | .*━\s100%\s
    | .*\ssaved\s\[\d | .*\b100%\s\(\d+/\d+\).*,\sdone\.$ | 100\s+[\d.]+[kMG]?\s+100\s
    # training, servers
    | (?:\(.*?\)\s|\[.*?\]\s)*(?:[Ee]poch|[Ss]tep|iter)[:\s=]\s?\d+\W
    | (?:\(.*?\)\s)*\[rank\s?\d+\]\s.*\bloss\b | .*\d\s?(?:it|images|samples)/s\b
    | (?:\[.*?\]\s)?Trial\s\d+\sfinished\s
    | Installing\s\d+/\d+\s\S+\.\.\.$ | \(\d+/\d+\)\sinstalling\s | Output\sgenerated\sin\s
    | .*\btotal\stime\s+=\s+[\d.]+\sms\s
    | \[GIN\]\s.*\|\s200\s\|)
    """,
    re.VERBOSE,
)
_SOFT_ERROR = re.compile(  # programs often go on after these
    r"^\s*(?:fatal|remote|rm|cp|E): |pip's dependency resolver|^error: RPC failed|"
    r"^\s*(?:\w+\.)*\w+(?:Error|Exception): |^\s*/bin/sh: |Failed to clone|Retry scheduled|"
    r"Read timed out|name resolution|unable to resolve host|urlopen error|sccache: error:|"
    r": cannot find -l|^collect2: error: ld |: (?:command )?not found$|^curl: \(\d+\) |"
    r"^g?make(?:\[\d+\])?: \S+: (?:No such|Command not)|cannot open shared object file|"
    r"^error: failed retrieving file |bytes of body are still expected$|^fetch-pack: |"
    r"^ERROR: HTTP error \d+ while getting|Error while loading conda entry point: |"
    r"\bfailed call to cuInit: |"
    r"^ggml_cuda_init: failed |: No module named '|^HTTP Error 404|^/tmp/(?!pip-)\S+\.c:\d+:|"
    r"^\s*compilation terminated\.$"
)
_NO_REPOSITORY = re.compile(r"^\s*fatal: not a git repository")
PROMPT = re.compile(  # of a shell or Python, with a command
    r"^(?:(?:\[\S+@.*\]|\S+@\S+|\(.*\) ?\S*)[$#]|PS [A-Z]:\S*>|[A-Z]:\\\S*>|\$|>>>) ?"
    r"(?P<command>[\w./~].*)"
)
_OUTPUT_LINES = 2  # lines of output that show how a command went


def find_last_attempt(lines: Sequence[LogLine]) -> int:
    """Return the index of the first line of the last attempt.

    It is after the log's end if the build went on after all errors.
    """
    start = 0
    failed: list[str] = []  # the lines that say that the attempt failed
    for index, line in enumerate(lines):
        if _COMMAND_LINE.search(line.text) or _is_interrupt(lines, index):
            start, failed = index + 1, []
        elif _BUILD_FAILED.search(line.text):
            failed.append(line.text)
        elif _STEP_SUCCEEDED.search(line.text) and (
            not failed or _installs_failed_package(" ".join(failed), line.text)
        ):
            start, failed = index + 1, []
    start = _find_repeated_command(lines, start)
    return start + _find_end_of_overcome_errors(lines[start:])


def _is_interrupt(lines: Sequence[LogLine], index: int) -> bool:
    """Return True if the user stopped a build at line `index`, and a later command failed."""
    is_stopped = _INTERRUPTED.match(lines[index].text) is not None
    return is_stopped and any(is_error(line) for line in lines[index + 1 :])


def _find_repeated_command(lines: Sequence[LogLine], start: int) -> int:
    """Return the index of the last prompt with the only command that failed before, else `start`.

    Output before `start` does not count.
    """
    found = [(at, match) for at, one in enumerate(lines) if (match := PROMPT.match(one.text))]
    earlier = sum(at <= start for at, _ in found)
    commands = found[max(0, earlier - 1) :]
    ends = [*(at for at, _ in commands[1:]), len(lines)]
    failed: set[str] = set()
    repeated = start
    for (at, match), end in zip(commands, ends, strict=False):
        command = match["command"].removeprefix("sudo ").strip()
        output = [one for one in lines[max(at + 1, start) : end] if one.text.strip()]
        if failed == {command} and len(output) >= _OUTPUT_LINES:
            repeated = at
        if any(map(is_error, output)):
            failed.add(command)
    return repeated if len(failed) <= 1 else start


def _find_end_of_overcome_errors(lines: Sequence[LogLine]) -> int:
    """Return the index after the errors that the build overcame, 0 if it did not overcome all."""
    edges = {line.unit: index for index, line in enumerate(lines) if line.failed}
    if edges:
        last = max(edges.values())
        steps = {
            find_step_output(one.text): at for at, one in enumerate(lines) if one.failed is False
        }
        redone = all(steps.get(unit, 0) > index for unit, index in edges.items())
        ends = (at for at, one in enumerate(lines) if at > last and one.failed is False)
        if redone:
            return next(ends, 0)
    errors = [
        at
        for at, one in enumerate(lines)
        if is_error(one) or (is_consequence(one) and not one.text.lstrip().startswith("raise "))
    ]
    if edges or not all(_SOFT_ERROR.search(lines[at].text) for at in errors):
        return _find_end_of_version_query(errors, lines)
    last_error = max(errors, default=0)
    progress = (at for at, one in enumerate(lines) if BUILD_PROGRESS.search(one.text))
    last_progress = max(progress, default=0)
    is_other = any(PROMPT.match(one.text) for one in lines[last_error + 1 : last_progress])
    return last_progress + 1 if last_progress > last_error and not is_other else 0


def _find_end_of_version_query(errors: Sequence[int], lines: Sequence[LogLine]) -> int:
    """Return the index after git's first error if a setup.py asked for the version, and went on."""
    first, second = ([at for at in errors if is_error(lines[at])] + [0, 0])[:2]
    went_on = any(BUILD_PROGRESS.search(one.text) for one in lines[first:second])
    is_query = went_on and _NO_REPOSITORY.match(lines[first].text)
    needs_git = any("submodule" in one.text for one in lines[first:])
    return first + 1 if is_query and not needs_git else 0


def _installs_failed_package(failed: str, line: str) -> bool:
    """Return True if a line of pip says that it installed a package that failed before."""
    named = " ".join(one.partition("which")[0] for one in _PACKAGES.findall(failed))
    installed = tuple(map(canonicalize_name, line.split()))
    names = map(canonicalize_name, re.findall(r"[A-Za-z][\w.-]*", named))
    return any(one == name or one.startswith(f"{name}-") for name in names for one in installed)
