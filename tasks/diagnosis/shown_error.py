"""Choose the line of an error to show, and complete its message with the lines below it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from tasks.diagnosis.failure_matches import FailureMatch, is_warning, needs_following_lines
from tasks.diagnosis.first_error import FirstError, is_consequence, is_error, parse_error
from tasks.diagnosis.kind_matches import KindMatch
from tasks.diagnosis.last_attempt import PROMPT
from tasks.diagnosis.log_lines import LogLine, measure_indent

_MESSAGE_LINES = 5  # lines of a message that may match together
_LONG_MESSAGE_LINES = 16  # lines of a CMake message below its head
_HEAD_WITHOUT_MESSAGE = re.compile(
    r"(?:^|output=)CMake Error (?:at \S.*|in \S+):$|^(?:\w+\.)*\w*(?:Error|Exception):$|"
    r"look up to see its traceback\):$|\bpanicked at '$|^ninja: error:$|"
    r"^terminate called after throwing an instance of '.*'$|"
    r"^fatal: unable to connect to \S+:$|\bNCCL error in: |\bChildFailedError:\s*$|"
    r" while solving:$|\bpanicked at \S+:\d+:\d+:$|^Undefined symbols for architecture \w+:$|"
    r"source of the following dependency conflicts\.$|No solution found when resolving |"
    r"^error: Failed to determine installation plan$|"
    r"^(?:ResolvePackageNotFound|(?:PackagesNotFound|LibMambaUnsatisfiable)Error: .*):\s*$|"
    r"^dpkg: error processing .*:$|\bbuild failed(?: \(first \d+ chars\)):$|"
    r"^(?:error\s+libmamba )?Could not solve for environment specs$"
)
_POETRY_HEAD = re.compile(r"^\s+\w+(?:Error|Exception)$")  # its message is below an empty line
_EXCEPTION_HEAD = re.compile(r"^\s*(?:Runtime)?Error:\s*$")
_TABLE_HEAD = re.compile(r"Could not solve for environment specs$|\bChildFailedError:\s*$")
_REASON_BELOW = re.compile(  # the line that says why, in a tree of conda and a table of torchrun
    r"\bdoes not exist \(perhaps|\bnothing provides |no viable options|"
    r"conflicts with any installable|\bSignal \d+ \(SIG\w+\) received"
)
_LAST_ERROR = "Last error:"  # NCCL's heading
_NO_WHEELS = re.compile(r"\S+ has no wheels with a matching [^,(]+")
_UV_HEAD = re.compile("No solution found when resolving ")
_EXPLANATION = re.compile(r"\bBecause (?!.*following versions of)")  # uv's, below its head
_CAUSED_BY = re.compile(  # uv's and cargo's, below the head
    r"^\s*(?:cause: |[├╰]─▶ |[|`]-> |Caused by: |(?=Caused by:$))(?P<cause>.+)"
)
_URL_OF_CAUSE = ("`http", "(http")  # below the cause, on a line of its own
_BUILD_SCRIPT = "/build-script"  # in the name of the program that failed
_SYSTEM_ERROR = re.compile(r"^[A-Z][\w ]+ \(os error \d+\)$")  # says less than the cause above it
_CAUSE_HEAD = "Caused by:"  # cargo's cause is on the next line
_MESSAGE_BREAK = re.compile(  # what follows CMake's message
    r"(?:FAILED|ninja): |Call Stack|-- |CMake Error"
)
_SENTENCE_END = re.compile(r"[.:!?]$")
_NUMPY_MESSAGE = re.compile(r"^\s*A module that was compiled using NumPy 1\.x cannot be run")
_RETRY = re.compile(r"\bRetrying\b|\bretry(?:ing)? \d|\battempt \d", re.IGNORECASE)
_EARLIER_LINES = 60  # lines before the last of several retries, and of a traceback
_FOLLOWS_ERROR = re.compile(r"^\s*Did you (?:run|forget)\b|^The conflict is caused by:")
_PYTHON_WARNING = re.compile(r"^\s*(?:\S+:\d+: )?\w+Warning: ")
_WARNING_HEAD = re.compile(r"^\s*\S+:\d+: \w+Warning:\s*$")
_CODE_OF_WSL = re.compile(r"^\s*Error code: Wsl/")  # its message is above
_PROGRESS_OF_WSL = re.compile(r"^\s*(?:$|(?:>? ?wsl|Installing|Downloading|Launching|Importing)\b)")
_CAUSES_ABOVE = tuple(  # an error of a linker or of apt, and the message above it that says why
    (re.compile(error), re.compile(cause))
    for error, cause in (
        (r"undefined reference to\b", r"\bwarning: \S+, needed by .+, not found\b"),
        (r": cannot find -l", r": unknown type \[0x13\] section "),
        (r"^E: The repository .* is not signed", r"^W: GPG error: .*: Couldn't create temporary"),
    )
)
_OUTPUT_FOLLOWS = re.compile(  # the error is in the output below
    r"It fails with the following output:$|The output was:$|^RuntimeError: Couldn't install \w+|"
    r"See below for full command line and output"
)
_OF_GPU = re.compile("cuda|GPU|NVIDIA", re.IGNORECASE)
_REASON = "Reason given by package:"
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
_SOURCE_TEXT = re.compile(r"""^\s*f?["'].*["'],?\s*$""")  # a string in a traceback


def find_error_line(match: FailureMatch, lines: Sequence[LogLine]) -> LogLine:
    """Return the line of a match, or the line that reports its error.

    That is the error after it if the match needs the lines after it, the error before it if the
    match is a consequence or in the middle of CMake's message, and the first of several retries.
    """
    line, before = _find_chain_head(lines, match.at), lines[: match.at]
    if _RETRY.search(line.text) or "_ARRAY_API not found" in line.text:
        return _find_earlier_message(line, before)
    if is_error(line):
        return line
    if is_consequence(line):
        return next(filter(is_error, before), line)
    is_source = _SOURCE_TEXT.match(line.text)
    head = None if is_source else _find_cmake_head(lines, match.at)
    if head or not (is_source or needs_following_lines(match.failure, line.text)):
        return head or line
    after = lines[match.at : match.at + _MESSAGE_LINES]
    return next(filter(is_error, after), line)


def find_kind_line(lines: Sequence[LogLine], kind: KindMatch) -> LogLine:
    """Return the line to show for a kind.

    That is the error after it if its line is source text with `raise` or no error without the lines
    after it, the head of CMake's message if the line is in the middle of it, and the first retry if
    the line only reports that a command gave up.
    """
    line = _find_chain_head(lines, kind.at)
    if is_error(line) or is_warning(line.text):
        return line
    if head := _find_cmake_head(lines, kind.at):
        return head
    is_raise = line.text.lstrip().startswith("raise ")
    if is_consequence(line) and not is_raise:
        return next((one for one in lines[: kind.at] if _RETRY.search(one.text)), line)
    if not (kind.needs_following or is_raise):
        return line
    after = lines[kind.at + 1 : kind.at + 1 + _MESSAGE_LINES]
    return next(filter(is_error, after), line)


def prefer_error(lines: Sequence[LogLine], line: LogLine) -> LogLine:
    """Return the error that a line to show only leads to, or the line.

    That is the error above a question or an explanation, the message above a code of WSL, the
    message of a linker or of apt above its error, the first error after a warning of Python, and
    the error in the output below a line that says which program failed.
    """
    at = lines.index(line)
    before = lines[max(0, at - _MESSAGE_LINES) : at]
    if _FOLLOWS_ERROR.match(line.text):
        return next(filter(is_error, reversed(before)), line)
    if _CODE_OF_WSL.match(line.text):
        skipped = (PROMPT, _PROGRESS_OF_WSL)
        messages = (one for one in before if not any(two.match(one.text) for two in skipped))
        return next(messages, line)
    for error, cause in _CAUSES_ABOVE:
        if error.search(line.text):
            return next((one for one in before if cause.search(one.text)), line)
    heads = (_WARNING_HEAD.search(one.text) for one in lines[max(0, at - 2) : at])
    is_warned = _PYTHON_WARNING.match(line.text) or (any(heads) and not is_error(line))
    is_cmake = line.text.lstrip().startswith("CMake Error")
    message = lines[at : at + _LONG_MESSAGE_LINES] if is_cmake else [line]
    only_reports = is_consequence(line) and not _EXCEPTION_HEAD.match(line.text)
    names_output = any(_OUTPUT_FOLLOWS.search(one.text) for one in message)
    if not (is_warned or only_reports or names_output):
        return line
    errors = [one for one in lines[at + 1 : at + _EARLIER_LINES] if is_error(one)]
    if "CUDA initialization: " in line.text:  # other errors are its consequences
        errors = [one for one in errors if _OF_GPU.search(one.text)]
    return errors[0] if errors else line


def _find_chain_head(lines: Sequence[LogLine], at: int) -> LogLine:
    """Return the line above uv's chain of causes if line `at` is one of them, else line `at`."""
    above = (one for one in reversed(lines[: at + 1]) if not _CAUSED_BY.match(one.text))
    return next(above, lines[at])


def _find_cmake_head(lines: Sequence[LogLine], at: int) -> LogLine | None:
    """Return the head of CMake's message to which line `at` belongs, `None` without one."""
    depth = measure_indent(lines[at].text)
    for line in reversed(lines[max(0, at - _LONG_MESSAGE_LINES) : at]):
        if not line.text.strip():
            continue
        if measure_indent(line.text) < depth and line.text.lstrip().startswith("CMake Error"):
            return line
        depth = min(depth, measure_indent(line.text))
    return None


def _find_earlier_message(line: LogLine, before: Sequence[LogLine]) -> LogLine:
    """Return the first of equal retries, or NumPy's message above its exception."""
    key = _NUMBERS.sub("0", line.text)
    same = (
        one
        for one in before[-_EARLIER_LINES:]
        if _NUMBERS.sub("0", one.text) == key or _NUMPY_MESSAGE.match(one.text)
    )
    return next(same, line)


def parse_message(line: LogLine, lines: Sequence[LogLine]) -> FirstError:
    """Return the error in a line, with its message or deepest cause if those are below it."""
    error = parse_error(line)
    below = lines.index(line) + 1
    after = [one.text for one in lines[below : below + _LONG_MESSAGE_LINES]]
    stripped = [text.strip() for text in after if text.strip()]
    if not _UV_HEAD.search(error.text) and (cause := _find_deepest_cause(stripped)):
        return replace(error, text=f"{error.text}: {cause}")
    is_poetry = bool(_POETRY_HEAD.match(line.text) and after and not after[0])
    if not (is_poetry or _HEAD_WITHOUT_MESSAGE.search(error.text)):
        return error
    if "CMake" in error.text:  # the message is indented
        depth = measure_indent(line.text)
        inner = takewhile(lambda text: not text or measure_indent(text) > depth, after)
        stripped = [text.strip() for text in inner if text.strip()] or stripped
    texts = list(takewhile(lambda text: not _MESSAGE_BREAK.match(text), stripped))
    return replace(error, text=f"{error.text} {_choose_message(error.text, texts)}".strip())


def _choose_message(head: str, texts: Sequence[str]) -> str:
    """Return the part of the lines below `head` that says what is wrong."""
    if _UV_HEAD.search(head):
        return _find_explanation(texts)
    reason = next(filter(_REASON_BELOW.search, texts), "")
    if reason and _TABLE_HEAD.search(head):
        return reason.lstrip("│├└─ ")
    if "NCCL" in head:
        return next((text for above, text in pairwise(texts) if above == _LAST_ERROR), "")
    reasons = [at for at, text in enumerate(texts, 1) if text.endswith(_REASON)]
    texts = texts[max(reasons, default=0) :][:_MESSAGE_LINES]
    ends = (at for at, text in enumerate(texts, 1) if _SENTENCE_END.search(text))
    return " ".join(texts[: next(ends, len(texts)) if "CMake" in head else 1])


def _find_deepest_cause(texts: Sequence[str]) -> str:
    """Return the last cause that uv or cargo prints directly below its error, "" without one.

    A failed build script of cargo does not count: its output below says why. Nor does an
    error of the system below the cause that names the program.
    """
    cause, is_below_head = "", False
    for text in texts:
        match = _CAUSED_BY.match(text)
        if not match and text.startswith(_URL_OF_CAUSE):
            continue
        if not (match or is_below_head):
            break
        is_below_head = text == _CAUSE_HEAD
        found = match["cause"] if match else text
        if not (is_below_head or _BUILD_SCRIPT in text or (cause and _SYSTEM_ERROR.match(found))):
            cause = found
    return cause


def _find_explanation(texts: Sequence[str]) -> str:
    """Return what uv says of wheels that do not fit, or its first reason, "" without one."""
    if no_wheels := _NO_WHEELS.search(" ".join(texts)):
        return no_wheels[0].strip()
    return next(filter(_EXPLANATION.search, texts[:_MESSAGE_LINES]), "")
