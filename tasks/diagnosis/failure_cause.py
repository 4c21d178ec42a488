"""Diagnose a log: find the earliest cause or, if the cause is uncertain, the candidates."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from tasks.core.ninja_progress import find_step_output
from tasks.diagnosis.failure_matches import (
    FailureMatch,
    ParsedLog,
    is_warning,
    needs_following_lines,
)
from tasks.diagnosis.first_error import (
    FirstError,
    find_consequence,
    is_compiler_error,
    is_consequence,
    is_error,
    parse_error,
)
from tasks.diagnosis.kind_matches import KindFinder, KindMatch
from tasks.diagnosis.log_lines import LogLine, measure_indent
from tasks.diagnosis.resolver_conflicts import CONFLICT_SLUG, find_conflict
from tasks.knowledge.facts import Failure

_STEP_SUCCEEDED = re.compile(
    r"^\s*Successfully (?:installed|built|tagged|uninstalled) |^\s*Build succeeded|"
    r"^\s*Finished (?:in [\d.]+|[`']?\w+[`']? )|^-- Build files have been written|"
    r"^\s*Installed \d+ packages? in|^-- Install configuration|^\s*BUILD SUCCESSFUL|"
    r"^(?:=+ )?(?!.*\b(?:failed|errors?)\b)(?:\d+ [a-z]+, )*\d+ passed\b.* in [\d.]+s|"
    r"^OK(?: \([a-z =,\d]+\))?$|^\s*100% tests passed|^\[  PASSED  \] \d+ tests?\.$|"
    r"^Test passed\.$|^test result: ok\. |^configure: exit 0$|"
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
_COMMAND_LINE = re.compile(r"^\$ (?:/|[\"']?[A-Z]:\\)")  # how torchyard's logs begin each command
_BUILD_PROGRESS = re.compile(  # printed by a program that continues after a warning
    r"""
      ^\s*(?:\[\s*\d+/\d+\]|(?:running|copying|adding|creating|building|removing|writing)\s
    | HEAD\sis\snow\sat | ==\s[\w\s]+\s==$
    | --\s(?:Configuring|Generating)\sdone | \#\d+\sDONE | Downloading\s\S+\.whl
    | .*:\sfinished\swith\sstatus\s'done' | (?:\S*[/-])?(?:g?cc|[gc]\+\+)\s-
    | Installing\sthe\scurrent\sproject
    # configure, make, packages of the system, conda, Spack and Homebrew
    | configure:\d+:\sresult:\s(?!no\b) | config\.status:\s(?:creating|executing)\s
    | (?:HOST)?(?:CC|CXX|LD|CCLD|CXXLD|AR|LINK)\s+(?:\[M\]\s+)?\w\S*$ | Setting\sup\s\S+\s\(
    | (?:Executing\stransaction:\s.*)?done$ | ==>\s\S+:\sExecuting\sphase | ==>\sPouring\s
    # downloads
    | .*\b100%\| | .*\ssaved\s\[\d | .*\b100%\s\(\d+/\d+\).*,\sdone\.$ | 100\s+[\d.]+[kMG]?\s+100\s
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
    r"^ERROR: HTTP error \d+ while getting|"
    r"^ggml_cuda_init: failed |: No module named '|^HTTP Error 404|^/tmp/(?!pip-)\S+\.c:\d+:|"
    r"^\s*compilation terminated\.$"
)
_NO_REPOSITORY = re.compile(r"^\s*fatal: not a git repository")
_EXCEPTION = re.compile(r"^\s*(?:\w+\.)*\w*(?:Error|Exception): ")
_OPTION_REJECTED = re.compile(r"\bCommand line error D\d{4}\b")  # of Visual C++
_MESSAGE_LINES = 5  # lines of a message that may match together
_CMAKE_MESSAGE_LINES = 4  # lines of a CMake message that may name what was not found
_LONG_MESSAGE_LINES = 16  # lines of a CMake message below its head
_RESOLVER_MESSAGE_LINES = 60  # lines of a resolver's explanation
_HEAD_WITHOUT_MESSAGE = re.compile(
    r"^CMake Error (?:at \S.* \(\w+\)|in \S+):$|^(?:\w+\.)*\w*(?:Error|Exception):$|"
    r"look up to see its traceback\):$|^terminate called after throwing an instance of '.*'$|"
    r"^fatal: unable to connect to \S+:$|"
    r" while solving:$|\bpanicked at \S+:\d+:\d+:$|^Undefined symbols for architecture \w+:$|"
    r"source of the following dependency conflicts\.$|No solution found when resolving |"
    r"^error: Failed to determine installation plan$|"
    r"^(?:ResolvePackageNotFound|(?:PackagesNotFound|LibMambaUnsatisfiable)Error: .*):\s*$|"
    r"^(?:error\s+libmamba )?Could not solve for environment specs$"
)
_UV_HEAD = re.compile("No solution found when resolving ")
_EXPLANATION = re.compile(r"\bBecause (?!.*following versions of)")  # uv's, below its head
_CAUSED_BY = re.compile(  # uv's, below its head
    r"^\s*(?:Caused by: |cause: |[├╰]─▶ )(?P<cause>.+)"
)
_MESSAGE_BREAK = re.compile(  # what follows CMake's message
    r"(?:FAILED|ninja): |Call Stack|-- |CMake Error"
)
_SENTENCE_END = re.compile(r"[.:!?]$")
_NUMPY_MESSAGE = re.compile(r"^\s*A module that was compiled using NumPy 1\.x cannot be run")
_RETRY = re.compile(r"\bRetrying\b|\bretry(?:ing)? \d|\battempt \d", re.IGNORECASE)
_EARLIER_LINES = 60  # lines before the last of several retries, and of a traceback
_QUESTION = re.compile(r"^\s*Did you (?:run|forget)\b")
_PYTHON_WARNING = re.compile(r"^\s*(?:\S+:\d+: )?\w+Warning: ")
_WARNING_HEAD = re.compile(r"^\s*\S+:\d+: \w+Warning:\s*$")
_OUTPUT_FOLLOWS = re.compile(  # the error is in the output below
    r"It fails with the following output:$|The output was:$|^RuntimeError: Couldn't install \w+"
)
_OF_GPU = re.compile("cuda|GPU|NVIDIA", re.IGNORECASE)
_REASON = "Reason given by package:"
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
_SOURCE_TEXT = re.compile(r"""^\s*f?["'].*["'],?\s*$""")  # a string in a traceback
_TRACEBACK_FRAME = re.compile(r"^\s*File \".+\", line \d+")
_TRACEBACK_LINES = 2  # a frame and its source line
TRUNCATED_SLUG = "truncated-log"
_PROMPT = re.compile(  # of a shell or Python, with a command
    r"^(?:(?:\[\S+@.*\]|\S+@\S+|\(.*\) ?\S*)[$#]|PS [A-Z]:\S*>|[A-Z]:\\\S*>|\$|>>>) ?\w"
)
_BUILD_CONTINUES = re.compile(r"^\s*\[\s*\d+(?:/\d+|%)\]\s|^-- (?:Configuring|Generating) done")


@dataclass(frozen=True)
class Diagnosis:
    """The result of a diagnosis.

    `failure` is the cause, `None` if uncertain. `candidates` are the slugs of possible causes.
    `first_error` is the line to show, and `edge` the Ninja edge that printed it, "" if unknown.
    `by` names the facts of the run that were used or missing. `kind` is the kind of the first error
    if no known failure is the cause, or it says more of the line of `failure`.
    """

    failure: Failure | None
    candidates: tuple[str, ...]
    first_error: FirstError | None
    edge: str = ""
    by: str = ""
    kind: KindMatch | None = None


def diagnose_log(
    failures: Sequence[Failure], log: ParsedLog, kinds: KindFinder | None = None
) -> Diagnosis:
    """Return the diagnosis of the last attempt in a log.

    If no known failure is the cause, it has the kind of the first error.
    """
    start = _find_last_attempt(log.lines)
    lines = log.lines[start:]
    matches = _drop_late_exceptions(
        _select_blocking(list(log.match_failures(failures, start)), lines), lines
    )
    for index, one in enumerate(matches):
        # uv explains some missing versions by a conflict
        if one.failure.slug == "no-matching-distribution" and _find_conflict_at(one, lines):
            conflict_failure = next(known for known in failures if known.slug == CONFLICT_SLUG)
            matches[index] = replace(one, failure=conflict_failure)
    error = next((_parse_message(line, lines) for line in lines if is_error(line)), None)
    match = _choose_match(matches, lines, error)
    if kinds and (kind := _find_kind(kinds, match, lines)):
        shown = _prefer_error(lines, _find_kind_line(lines, kind))
        return Diagnosis(None, (), _parse_message(shown, lines), shown.unit, kind=kind)
    if match is None:
        slugs = (one.failure.slug for one in matches if one.failure.rank != "rest")
        candidates = tuple(dict.fromkeys(slugs))
        late = kinds.find_kind(lines, late=True) if kinds and not candidates else None
        shown_error = error or find_consequence(lines)
        if not (shown_error or late or candidates) and _ends_in_traceback(lines):
            cut = next((one for one in failures if one.slug == TRUNCATED_SLUG), None)
            return Diagnosis(cut, (TRUNCATED_SLUG,) if cut else (), None)
        return Diagnosis(None, candidates, shown_error, kind=late)
    failure = match.failure
    line = _prefer_error(lines, _find_error_line(match, lines))
    is_rest = failure.rank == "rest"
    first_error = error or find_consequence(lines) if is_rest else _parse_message(line, lines)
    if failure.slug == CONFLICT_SLUG and (conflict := _find_conflict_at(match, lines)):
        head = parse_error(line)
        first_error = replace(head, text=f"{head.text.rstrip('.:')}: {conflict}")
    refined = _refine(kinds, match, lines, line) if kinds else None
    return Diagnosis(failure, (failure.slug,), first_error, line.unit, kind=refined)


def _refine(
    kinds: KindFinder, match: FailureMatch, lines: Sequence[LogLine], shown: LogLine
) -> KindMatch | None:
    """Return what a kind says of the line of a match, or of the line that reports its error."""
    slug = match.failure.slug
    refined = kinds.refine_failure(slug, lines, match.at)
    if refined or shown is lines[match.at]:
        return refined
    return kinds.refine_failure(slug, lines, lines.index(shown))


def _find_kind(
    kinds: KindFinder, match: FailureMatch | None, lines: Sequence[LogLine]
) -> KindMatch | None:
    """Return the kind that explains more than `match`.

    That is the kind of an error of an earlier command, or any kind if the rank of `match` is lower.
    """
    if match and match.failure.rank == "cause":
        kind = kinds.find_kind(lines[: match.at])
        commands = lines[kind.at : match.at] if kind and is_error(lines[kind.at]) else ()
        return kind if any(_PROMPT.match(one.text) for one in commands) else None
    kind = kinds.find_kind(lines)
    is_consequence = match is not None and match.failure.rank == "consequence"
    return None if kind and match and is_consequence and match.at < kind.at else kind


def _find_error_line(match: FailureMatch, lines: Sequence[LogLine]) -> LogLine:
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


def _prefer_error(lines: Sequence[LogLine], line: LogLine) -> LogLine:
    """Return the error that a line to show only leads to, or the line.

    That is the error above a question, the first error after a warning of Python, and the error in
    the output below a line that says which program failed.
    """
    at = lines.index(line)
    if _QUESTION.match(line.text):
        return next(filter(is_error, reversed(lines[max(0, at - _MESSAGE_LINES) : at])), line)
    heads = (_WARNING_HEAD.search(one.text) for one in lines[max(0, at - 2) : at])
    is_warned = _PYTHON_WARNING.match(line.text) or (any(heads) and not is_error(line))
    is_cmake = line.text.lstrip().startswith("CMake Error")
    message = lines[at : at + _LONG_MESSAGE_LINES] if is_cmake else [line]
    if not (is_warned or any(_OUTPUT_FOLLOWS.search(one.text) for one in message)):
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
    """Return the head of CMake's message to which line `at` belongs, `None` if it is of none."""
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


def _parse_message(line: LogLine, lines: Sequence[LogLine]) -> FirstError:
    """Return the error in a line, with its message or deepest cause if those are below it."""
    error = parse_error(line)
    below = lines.index(line) + 1
    after = [one.text for one in lines[below : below + _LONG_MESSAGE_LINES]]
    causes = list(takewhile(_CAUSED_BY.match, after))
    if causes and not _UV_HEAD.search(error.text):
        deepest = _CAUSED_BY.sub(r"\g<cause>", causes[-1])
        return replace(error, text=f"{error.text}: {deepest}")
    if not _HEAD_WITHOUT_MESSAGE.search(error.text):
        return error
    stripped = (text.strip() for text in after if text.strip())
    texts = list(takewhile(lambda text: not _MESSAGE_BREAK.match(text), stripped))
    reasons = [at for at, text in enumerate(texts, 1) if text.endswith(_REASON)]
    texts = texts[max(reasons, default=0) :][:_MESSAGE_LINES]
    end = next((at for at, text in enumerate(texts, 1) if _SENTENCE_END.search(text)), len(texts))
    shown = 0 if _UV_HEAD.search(error.text) else end if "CMake" in error.text else 1
    message = next(filter(_EXPLANATION.search, texts), " ".join(texts[:shown]))
    return replace(error, text=f"{error.text} {message}".strip())


def _ends_in_traceback(lines: Sequence[LogLine]) -> bool:
    """Return True if the log ends with a traceback whose exception was not copied."""
    last = [line.text for line in lines if line.text.strip()][-_TRACEBACK_LINES:]
    return any(_TRACEBACK_FRAME.match(text) for text in last)


def _find_kind_line(lines: Sequence[LogLine], kind: KindMatch) -> LogLine:
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


def _find_conflict_at(match: FailureMatch, lines: Sequence[LogLine]) -> str:
    return find_conflict(line.text for line in lines[match.at : match.at + _RESOLVER_MESSAGE_LINES])


def _find_last_attempt(lines: Sequence[LogLine]) -> int:
    """Return the index of the first line of the last attempt.

    It is after the log's end if the build went on after all errors.
    """
    start = 0
    failed: list[str] = []  # the lines that say that the attempt failed
    for index, line in enumerate(lines):
        if _COMMAND_LINE.search(line.text):
            start, failed = index + 1, []
        elif _BUILD_FAILED.search(line.text):
            failed.append(line.text)
        elif _STEP_SUCCEEDED.search(line.text) and (
            not failed or _installs_failed_package(" ".join(failed), line.text)
        ):
            start, failed = index + 1, []
    return start + _find_end_of_overcome_errors(lines[start:])


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
    progress = (at for at, one in enumerate(lines) if _BUILD_PROGRESS.search(one.text))
    last_progress = max(progress, default=0)
    is_other = any(_PROMPT.match(one.text) for one in lines[last_error + 1 : last_progress])
    return last_progress + 1 if last_progress > last_error and not is_other else 0


def _find_end_of_version_query(errors: Sequence[int], lines: Sequence[LogLine]) -> int:
    """Return the index after git's first error if a setup.py asked for the version, and went on."""
    first, second = ([at for at in errors if is_error(lines[at])] + [0, 0])[:2]
    went_on = any(_BUILD_PROGRESS.search(one.text) for one in lines[first:second])
    is_query = went_on and _NO_REPOSITORY.match(lines[first].text)
    needs_git = any("submodule" in one.text for one in lines[first:])
    return first + 1 if is_query and not needs_git else 0


def _installs_failed_package(failed: str, line: str) -> bool:
    """Return True if a line of pip says that it installed a package that failed before."""
    named = " ".join(one.partition("which")[0] for one in _PACKAGES.findall(failed))
    installed = tuple(re.sub(r"[-_.]+", "-", one).lower() for one in line.split())
    names = (re.sub(r"[-_.]+", "-", one).lower() for one in re.findall(r"[A-Za-z][\w.-]*", named))
    return any(one == name or one.startswith(f"{name}-") for name in names for one in installed)


def _drop_late_exceptions(
    matches: Sequence[FailureMatch], lines: Sequence[LogLine]
) -> list[FailureMatch]:
    """Return the matches without the exceptions of Python after an error of a compiler.

    The build failed at the compiler's error; what a setup.py tries next fails for other reasons.
    """
    errors = (index for index, line in enumerate(lines) if is_compiler_error(line))
    first = next(errors, len(lines))
    return [one for one in matches if one.at < first or not _EXCEPTION.match(lines[one.at].text)]


def _select_blocking(
    matches: Sequence[FailureMatch], lines: Sequence[LogLine]
) -> list[FailureMatch]:
    """Return the matches that can have stopped the build: it did not go on after them."""
    if not matches:
        return []
    has_failed_edge = any(line.failed for line in lines)
    last_progress = _find_last(_BUILD_PROGRESS, lines)
    last_step = _find_last(_BUILD_CONTINUES, lines)
    return [
        one
        for one in matches
        if not (
            (has_failed_edge and lines[one.at].failed is False)
            or (one.at < last_progress and is_warning(lines[one.at].text))
            or (one.at < last_step and one.failure.rank == "notice")
        )
    ]


def _find_last(pattern: re.Pattern[str], lines: Sequence[LogLine]) -> int:
    """Return the index of the last line that matches, -1 if none."""
    indexes = range(len(lines) - 1, -1, -1)
    return next((index for index in indexes if pattern.search(lines[index].text)), -1)


def _choose_match(
    matches: Sequence[FailureMatch], lines: Sequence[LogLine], error: FirstError | None
) -> FailureMatch | None:
    """Return the match that explains the failed build, `None` if the cause is uncertain."""
    firsts: dict[str, FailureMatch] = {}  # by rank
    for match in matches:
        firsts.setdefault(match.failure.rank, match)
    if cause := firsts.get("cause"):
        return None if _has_unknown_error_before(cause, lines) else cause
    if consequence := firsts.get("consequence"):
        before = lines[: consequence.at]
        return None if any(is_compiler_error(line) for line in before) else consequence
    if error is None or not any(is_error(line) for line in lines):
        return firsts.get("notice") or firsts.get("rest")
    return None


def _has_unknown_error_before(match: FailureMatch, lines: Sequence[LogLine]) -> bool:
    """Return True if an earlier error of another edge, cl or CMake may be the cause."""
    unit, before = lines[match.at].unit, lines[: match.at]
    if any(line.failed and line.unit != unit and is_compiler_error(line) for line in before):
        return True
    if any(_OPTION_REJECTED.search(line.text) for line in before):
        return True
    # CMake continues after errors
    starts = (line.text.lstrip().startswith("CMake Error ") for line in lines[: match.at + 1])
    errors = [index for index, is_start in enumerate(starts) if is_start]
    return len(errors) > 1 and match.at - errors[-1] <= _CMAKE_MESSAGE_LINES
