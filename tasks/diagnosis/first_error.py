"""Find the real errors in a log: those that are neither harmless nor caused by other errors."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tasks.diagnosis.log_lines import LogLine

_ERROR = re.compile(
    r"""
      \b(?:fatal\s)?error(?:\s?[A-Z]+\d+)?\s*:                    # gcc, clang, nvcc, MSVC, git, pip
    | \b(?:fatal\serror|error)\s[A-Z]{1,6}\d{3,5}\b               # MSVC, MSBuild
    | \berror\s\#\d+(?:-D)?\s*: | \ball\swarnings\sbeing\streated\sas\serrors  # nvcc, gcc: -Werror
    | ^\s*(?:nvcc|ptxas|fatbinary|nvlink)\s(?:fatal|error)\b | ^\s*CMake\sError | ^\s*fatal:\s
    | \bld(?:\.\w+)?:\s.*(?:undefined|cannot\sfind|unable\sto\sfind)
    | ^\s*Killed\s*$ | ^\s*(?:\w+\.)*\w*(?:Error|Exception|Interrupt):(?:\s|$)
    | ^\s*ERROR:\s | No\sspace\sleft\son\sdevice | \bcatastrophic\serror\b | ^\s*Internal\serror
    | \bstatic\sassertion\sfailed | ^\s*Segmentation\sfault
    | (?:sh|line\s\d+|env|make)\S*:\s.*:\s(?:command\s)?not\sfound$
    | ^(?!\s*--).*\s(?:Could\snot|cannot)\s(?:find|open|load)\b.*(?<!\.\.\.)$
    """,
    re.VERBOSE,
)
_CONSEQUENCE = re.compile(
    r"""
      ninja:\sbuild\sstopped | CalledProcessError
    | \bError\scompiling\sobjects | Error\sbuilding\sextension
    | \berror:\s[Cc]ommand\s.*(?:failed\swith|returned\snon-zero)\sexit
    | subprocess-exited-with-error | metadata-generation-failed
    | Failed\s(?:to\sbuild|building) | Could\snot\sbuild\swheels | g?make(?:\[\d+\])?:\s\*\*\*
    | collect2:\s(?:fatal\s)?error | \bMSB(?:3721|6006|8066|4181)\b | \bLNK1120\b
    | Configuring\sincomplete
    | No\smatching\sdistribution | \baborting\b|Retry\sscheduled | compilation\sterminated
    | \d+\serrors?\sdetected\sin | ^\s*raise\b | Build\sbackend\sfailed | Failed\sto\sclone
    | Process\scompleted\swith\sexit\scode | installation\sof\spackage | ERROR:\sFailed\sto\sbuild
    | did\snot\srun\ssuccessfully | failed-wheel-build | aborted\sdue\sto\serrors | Error\s\d+$
    | Error\swhile\sgenerating\spackage | \bexit\s(?:code|status):?\s\d+\.?$
    | returned\snon-zero\sexit | (?:Runtime)?Error:\s*$ | subprocess\.Called
    """,
    re.VERBOSE,
)
_NOISE = re.compile(
    r"""
      Error\schecking\scompiler\sversion | could\snot\sfind\sninja
    | ^(?!.*\berror:\s).*(?:^|\s)["']?-Werror | ^\s*Running\scommand\s   # flags; pip's progress
    | (?:^|[:\s])warning(?:\s[A-Z]*\d*\S*)?\s*: | \bwarning\s\#\d+ | ^\s*\#warning
    | ^\s*--\s(?:Performing|Looking|Check|Detecting|Found)\b | ^\s*\d+\s\|\s | ^\s*\|\s | ^\s*note:
    | ^\s*(?:adding|copying|creating|writing|reading|running|inflating|Compiling|Downloading)\s
    | ^(?:\[pid\s+\d+\]\s|\d+\s+)?(?:[\d:.]+\s)?\w+\(.*\)\s+=\s(?:-?\d|0x|\?)   # strace
    | ^\s*(?:HEAD\sis\snow\sat|commit|\*)\s[0-9a-f]{7,}\b | ^\s*[0-9a-f]{7,40}\s\w  # git's words
    | ^\s*\[\s*\d+%\]\s | \bBuilt\starget\s   # make's progress, and Ninja's with CMake's own steps
    | ^\s*\[\d+/\d+\]\s(?:Building|Linking|Generating|Performing|Completed|Creating|No)\s
    | ^\s+\S+:\d+\s\(\w+\)$ | ^INFO:\s | DEPRECATION | ^\s*\w*Warning: | ^\s*print\( | is\signored:
    | ^(?:\s*\[\d+/\d+\])?\s*(?:ccache\s|sccache\s)?["']?\S*
      (?:nvcc|gcc|g\+\+|c\+\+|cc|clang|clang\+\+|cl|link)(?:-\d+)?(?:\.exe)?["']?\s[-/@]\S*\s
    """,
    re.VERBOSE,
)
_LOCATIONS = (
    re.compile(r"^\s*(?P<file>(?:[A-Za-z]:)?[^:(\s][^:(]*):(?P<line>\d+)(?::\d+)?:\s"),
    re.compile(r"^\s*(?P<file>(?:[A-Za-z]:)?[^:(\n]*(?:\([^)\d][^)]*\)[^:(\n]*)*)\((?P<line>\d+)(?:,\d+)?\)\s?:"),
    re.compile(r"^\s*CMake \w+ at (?P<file>.+?):(?P<line>\d+)\b"),
    re.compile(r"^\s*ptxas (?P<file>\S+), line (?P<line>\d+);"),
)  # fmt: skip
_COMPILER_ERROR = re.compile(r"[:)]\s*(?:fatal )?error(?: [A-Z]*\d+| #\d+(?:-D)?)?\s*:")


@dataclass(frozen=True)
class FirstError:
    """An error in the log line `number`; `file` and `line` are its source location, if named."""

    number: int
    text: str
    file: str | None = None
    line: int | None = None


def find_error_or_last_line(lines: Iterable[LogLine]) -> FirstError | None:
    """Return the first real error; if none exists, the last line that is not blank."""
    last = None
    for line in lines:
        if is_error(line):
            return parse_error(line)
        last = line if line.text.strip() else last
    return parse_error(last) if last else None


def is_error(line: LogLine) -> bool:
    """Return True if the line reports an error that is not a consequence of another error."""
    if line.failed is False or not _ERROR.search(line.text):
        return False
    return not (is_noise(line.text) or _CONSEQUENCE.search(line.text))


def is_noise(text: str) -> bool:
    """Return True for a warning, a command, a CMake check or a source line."""
    return bool(_NOISE.search(text))


def is_compiler_error(line: LogLine) -> bool:
    """Return True if the line is an error of a compiler at a location in a source file."""
    is_located = is_error(line) and find_source_location(line.text) is not None
    return is_located and bool(_COMPILER_ERROR.search(line.text))


def parse_error(line: LogLine) -> FirstError:
    """Return the error in a line, with the location in the sources if the line names it."""
    file, number = find_source_location(line.text) or (None, None)
    return FirstError(line.number, line.text.strip(), file, number)


def find_source_location(text: str) -> tuple[str, int] | None:
    """Return the source file and line named in a message of a compiler, CMake or ptxas."""
    for pattern in _LOCATIONS:
        if match := pattern.search(text):
            return match["file"].strip(), int(match["line"])
    return None
