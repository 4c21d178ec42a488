"""Summarize each line of build output for the progress display, for example as a file name."""

import re

from tasks.core.ninja_progress import parse_ninja_step

_PERCENT = re.compile(r"\[\s*\d+%\]\s*")  # printed by CMake's Makefile generator
_NAME = r"(\"[^\"]+\"|'[^']+'|\S+)"
_INPUT = re.compile(rf"(?<=\s)[-/](?:c\s+|T[cp]\s*)(?={_NAME})")  # cl also writes /Tpx.cpp
_OUTPUT = re.compile(rf"\s(?:-o\s+|/(?:out|OUT):){_NAME}")
_ARCHIVE = re.compile(r"\s(\S+\.(?:a|lib))(?=\s|$)")
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".hip", ".m", ".mm", ".s", ".S", ".asm", ".rc")
_WARNING = re.compile(r"(?:^|[:)] )(?:[Cc]ommand line )?warning(?: [#A-Z]+\d[\w-]*)? ?:")
_MAX_LENGTH = 200  # characters
# Summaries of lines that are neither a step nor a compiler command; the first match applies
_PHRASES = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"-- ((?:Performing Test|Looking for|Found) \S+)", r"\1"),
        (r"-- Detecting (\S+) compile", r"checking the \1 compiler"),
        (r"-- (?:Configuring|Generating) done", "configured"),
        (r"-- Build files have been written", "compiling"),
        (r"-- (?:Install configuration|Installing|Up-to-date|Set non-toolchain)", "installing"),
        (r"building '(\S+)' extension", r"compiling \1"),  # printed by setuptools
        (r"[Aa]dding '(?:\S*/)?(\S+)'$", r"adding \1"),
        (r"[Cc]opying (?:\S*/)?(\S+) (?:->|to|from) ", r"copying \1"),
        (r"\*\*\* Configuring CMake", "configuring"),  # printed by scikit-build-core
        (r"\*\*\* Building project", "compiling"),
        (r"\*\*\* Installing project", "installing"),
        (r"\*\*\* Making wheel", "building the wheel"),
        (r"((?:Cloning|Downloading|Extracting|Fetching|Unpacking) .+)", r"\1"),
    )
)


def is_warning(line: str) -> bool:
    """Return True for a compiler warning: `x.cpp:3:1: warning: …`, `x.cpp(3): warning C4244: …`."""
    return _WARNING.search(line) is not None


def summarize_line(line: str) -> str:
    """Return a short summary of a build output line (`x.cpp`); "" if the line is not shown."""
    text = line.strip()
    step, percent = parse_ninja_step(text), _PERCENT.match(text)
    if step or percent:
        command = step.text if step else _PERCENT.sub("", text, count=1)
        last_word = command.rpartition(" ")[2]  # as in "Building CXX object x.cpp.o"
        is_file = _is_path(last_word) or "." in last_word.strip(".")
        description = _extract_base_name(last_word) if is_file else command
        summary = _find_file_name(command) or _find_program_name(command) or description
    else:
        matches = ((pattern.match(text), words) for pattern, words in _PHRASES)
        phrase = next((match.expand(words) for match, words in matches if match), "")
        summary = phrase or _find_file_name(text)
    return summary[:_MAX_LENGTH]


def _find_file_name(command: str) -> str:
    """Return the source file in a command or, without any, the output file or archive."""
    for name in map(_extract_base_name, _INPUT.findall(command)):
        if name.endswith(_SOURCES):
            return name
    if output := _OUTPUT.search(command):
        return _extract_base_name(output[1])
    archive = _ARCHIVE.search(command) if " && " in command else None
    return _extract_base_name(archive[1]) if archive else ""


def _find_program_name(command: str) -> str:
    """Return the program that a command runs, such as `gen.py`; "" if the text is no command."""
    if " && " not in command and not _is_path(command.partition(" ")[0]):
        return ""
    parts = (part.split() for part in command.split(" && "))
    words = next((part for part in parts if part and part[0] not in ("cd", ":")), [command])
    program, *arguments = words
    if _extract_base_name(program).startswith("python"):
        names = (word.removeprefix("-m") for word in arguments)
        return _extract_base_name(next((n for n in names if n and n[0] != "-"), program))
    subcommand = arguments[:2] if arguments[:1] == ["-E"] else []  # as in `cmake -E copy`
    return " ".join([_extract_base_name(program), *subcommand])


def _extract_base_name(name: str) -> str:
    base = re.split(r"[\\/]", name.strip("\"'"))[-1]
    return base.removesuffix(".o").removesuffix(".obj")


def _is_path(word: str) -> bool:
    return "/" in word or "\\" in word
