"""Clean the lines of a log, and assign each to a Ninja edge or MSBuild project."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tasks.core.ninja_progress import find_failed_output, parse_ninja_step
from tasks.diagnosis.translations import translate_to_english

_MAX_LINE_LENGTH = 2000
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])|[\x00\x08]"
)
_LINE_PREFIX = re.compile(
    r"""^\ufeff?
      (?:>\s)?   # a quotation
      (?:\d+\.\d+s\t\d+\t)?   # Kaggle
      (?:\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?
         (?:Z|[+-]\d\d:?\d\d)?\]?:?\s?(?:\|\s)?)?    # a CI's clock
      (?:\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?\s)?   # a clock without a date
      (?:[A-Z][a-z]{2}\s[\d\s]\d\s\d\d:\d\d:\d\d\s\S+\s[\w.-]+\[\d+\]:\s)?   # journald
      (?:[\w.-]+[-_]\d+\s+\|\s)?   # docker compose
      (?:\#\d+\s\d+\.\d+\s?)?   # docker build
      (?:\d+\.\d{2,3}(?:\s|$)|\d{3,}\.\d\s)?   # docker's summary
      (?:\((?:\S+\s)?pid=\d+(?:,\s\w+=\S+)?\)\s(?=\s*\S))?   # Ray, vLLM
      (?:ERROR\s\d\d-\d\d\s\d\d:\d\d:\d\d\s\[?\w+\.py:\d+\]\s(?=\s*\S))?   # vLLM
      (?:\[rank\d+\]:\s)?   # torchrun
      (?:warning:\s\S+@\d\S*:\s(?=\S+:\d+:\d+:\s(?:fatal\s)?error:\s))?   # cargo
      (?:\#\#\[(?!warning)\w+\]|::\w+::)?   # CI commands
      (?:\s*[│|]\s(?=\s*\S))?   # pip's frame
      (?:\s{2}(?:>>|\s\s)\s\d+\s{4})?   # lines that Spack shows
    """,
    re.VERBOSE,
)
_PROJECT = re.compile(r"^\s*(\d+)>(?:\s?\[CMake\]\s?)?")
_CAUSED_BY = re.compile(r"\s+Caused by:")
_EDGE_END = re.compile(
    r"^\s*(?:ninja: |Traceback \(most recent|\[end of output\]|ERROR: |-- |CMake |"
    r"Successfully |\$ |Loading extension module|=+ )"
)
_CMAKE_WARNING = re.compile(r"^\s*CMake (?:Deprecation )?Warning\b")
_WARNING_TAIL = re.compile(r"^\s*(?:Call Stack|This warning)")
_BLANKS_AFTER_WARNING = 2  # CMake's messages end with two blank lines
_WARNING_END = re.compile(r"^\s*(?:CMake Error|-- |ninja: |Traceback )")
_CUDA_NOT_FOUND = re.compile(r"^\s*CUDA_TOOLKIT_ROOT_DIR not found or specified$")
_CMAKE_ERROR = re.compile(r"^\s*CMake Error")
_OF_CUDA = re.compile("cuda|nvcc", re.IGNORECASE)
_MESSAGE_LINES = 8  # of a CMake error
_CONTINUED_LINES = 3
_IGNORED_EXCEPTION = re.compile(
    r"^\s*(?:Exception ignored (?:in|on|while)\b|A matching Triton is not available)"  # xformers
)
_SYNTAX_WARNING = re.compile(r"^\s*\S+:\d+: SyntaxWarning: ")  # the source line is below it
_EXCEPTION_FOLLOWS = re.compile(r"^\s*Exception ignored |^Traceback \(|^\s+\S|^A matching Triton")
_PROBE_FAILED = re.compile(  # CMake's logs; a probe may fail
    r"^(?:Performing|Determining|Detecting|Checking) .*\b(?:failed|did not match)\b.*"
    r"(?:with the )?(?:following )?output\b|"
    r"^(?:Command line|Called): .* -> 1$|^Working directory:\s+\S*meson-private"
)
# distutils compiles _configtest.c to check the system
_CHECK_COMMAND = re.compile(
    r"\b(?:cc|gcc|g\+\+|clang|cl(?:\.exe)?|link(?:\.exe)?)\b.*\b_configtest\b"
)
_CHECK_END = re.compile(r"removing: .*\b_configtest\b")
_CHECK_BREAK = re.compile(r"running |building |error:|copying ")
_COMMIT = re.compile(r"^commit [0-9a-f]{40}\b")  # git log, with the text of the author below
_COMMIT_TEXT = re.compile(r"^(?:Author|AuthorDate|Commit|CommitDate|Date|Merge): |^\s{4}|^\s*$")
_PROBE_END = re.compile(
    r"^(?:-- |CMake (?:Error|Warning)|Traceback|ERROR|error:|running |building |make: )|"
    r"^(?:\[\s*\d+(?:/\d+|%)\]|FAILED: )(?!.*cmTC_)|"
    r".*\b(?:passed|succeeded) with the following output|^-{9,}$|^(?:Checking|Compiler) .* : NO\b"
)


@dataclass(frozen=True)
class RawLine:
    """A line of a log before cleaning; `number` counts from 1 at the start of the log."""

    number: int
    text: str


@dataclass(frozen=True)
class LogLine:
    """A line of a log after cleaning.

    `unit` is the Ninja edge or MSBuild project that printed the line, "" if none. `failed` says
    whether the Ninja edge failed; it is `None` if `unit` is not a Ninja edge. `original` is the
    line before its translation to English, "" if it is the same. `is_harmless` is True for the
    lines of a CMake warning, and `is_probe` for text that says nothing of the build: the output of
    a check, which may fail, an exception that Python ignored, a commit of `git log`, and the source
    line below a SyntaxWarning.
    """

    number: int
    text: str
    unit: str = ""
    failed: bool | None = None
    original: str = ""
    is_harmless: bool = False
    is_probe: bool = False


def strip_colors(text: str) -> str:
    """Return the line without colours and other escape sequences."""
    return _ESCAPES.sub("", text).rstrip()[:_MAX_LINE_LENGTH]


def parse_lines(raws: Iterable[RawLine]) -> Iterator[LogLine]:
    """Yield the cleaned lines, each with its edge or project. Debug output is skipped."""
    lines = list(_parse_lines(raws))
    has_failed_edge = any(line.failed for line in lines)
    console = {  # steps that print before Ninja says that they failed
        next((one.unit for one in reversed(lines[:at]) if one.unit), "")
        for at, line in enumerate(lines)
        if line.failed and find_failed_output(line.text) and "-stamp/" in line.unit
    }
    probes = _find_failed_checks(lines) | _find_optional_cuda(lines)
    for number, line in enumerate(lines):
        if number in probes:
            yield replace(line, is_harmless=True, is_probe=True)
            continue
        # Without a failed edge, the output of the last one may be of the program that ran Ninja
        unknown = line.failed is False and (not has_failed_edge or line.unit in console)
        yield replace(line, failed=None) if unknown else line


def _find_failed_checks(lines: Sequence[LogLine]) -> set[int]:
    """Return the indexes of the output of distutils' checks that failed without an error.

    A check begins with the compiler's line, and ends with the line that removes its files.
    """
    found: set[int] = set()
    start: int | None = None
    for index, line in enumerate(lines):
        text = line.text.lstrip()
        if _CHECK_COMMAND.search(text):
            start = index if start is None else start
        elif _CHECK_END.match(text):
            result = lines[index - 1].text.strip()
            below = lines[index + 1].text.lstrip() if index + 1 < len(lines) else ""
            if start is not None and result == "failure." and not below.startswith("error:"):
                found.update(range(start, index))
            start = None
        elif _CHECK_BREAK.match(text):
            start = None
    return found


def _find_optional_cuda(lines: Sequence[LogLine]) -> set[int]:
    """Return the indexes of the lines with which FindCUDA says that it found no toolkit.

    They do not count if CMake went on, and failed for another reason or not at all.
    """
    found = {index for index, line in enumerate(lines) if _CUDA_NOT_FOUND.match(line.text)}
    if not found:
        return found
    after = lines[max(found) + 1 :]
    starts = (index for index, line in enumerate(after) if _CMAKE_ERROR.match(line.text))
    if (start := next(starts, None)) is not None:
        message = after[start : start + _MESSAGE_LINES]
        return set() if any(_OF_CUDA.search(line.text) for line in message) else found
    return found if sum(bool(line.text.strip()) for line in after) > _CONTINUED_LINES else set()


def _parse_lines(raws: Iterable[RawLine]) -> Iterator[LogLine]:
    unit, debug, is_probe, ignored, is_commit, is_warned = "", False, False, "", False, False
    failed: bool | None = None
    warning: int | None = None
    blanks = 0
    for raw in raws:
        original = _LINE_PREFIX.sub("", strip_colors(raw.text), count=1)
        text = translate_to_english(original)
        # A `DEBUG` line of uv with its causes: the attempt may have succeeded later
        debug = text.startswith("DEBUG ") or (debug and bool(_CAUSED_BY.match(text)))
        if debug:
            continue
        if project := _PROJECT.match(text):
            yield LogLine(raw.number, text[project.end() :], f"project {project[1]}")
            continue
        if output := find_failed_output(text):
            unit, failed = output, True
        elif step := parse_ninja_step(text):
            unit, failed = f"[{step.done}/{step.total}]", False
        elif _EDGE_END.match(text):
            unit, failed = "", None
        warning = _find_warning_indent(text, warning, blanks)
        blanks = 0 if text.strip() else blanks + 1
        is_probe = bool(_PROBE_FAILED.match(text) or (is_probe and not _PROBE_END.match(text)))
        changed = "" if text == original else original
        is_ignored = _IGNORED_EXCEPTION.match(text) or _EXCEPTION_FOLLOWS.match(ignored)
        is_source, is_warned = is_warned, bool(_SYNTAX_WARNING.match(text))
        ignored = text if is_ignored else ""
        is_commit = bool(_COMMIT.match(text) or (is_commit and _COMMIT_TEXT.match(text)))
        is_unused = is_probe or is_commit or is_source or bool(ignored)
        is_harmless = warning is not None or is_unused
        yield LogLine(raw.number, text, unit, failed, changed, is_harmless, is_unused)


def _find_warning_indent(text: str, indent: int | None, blanks: int) -> int | None:
    """Return the indent of the CMake warning to which a line belongs, `None` if to none.

    `indent` is that of the line before it, and `blanks` the number of blank lines between the last
    text and this line. pip indents the whole output of a build.
    """
    depth = measure_indent(text)
    if _CMAKE_WARNING.match(text):
        return depth
    if indent is None or not text.strip() or _WARNING_TAIL.match(text):
        return indent
    is_outside = depth < indent + 2 or blanks >= _BLANKS_AFTER_WARNING
    return None if is_outside or _WARNING_END.match(text) else indent


def measure_indent(text: str) -> int:
    """Return the number of blanks before the text of a line."""
    return len(text) - len(text.lstrip())
