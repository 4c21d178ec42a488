"""Summarize a line of build output for the progress display, such as the file of a step.

PyTorch's setup.py makes Ninja show whole commands, and compiler commands are 3 kB long. Most lines
that pip, setuptools, CMake and Ninja print are of no use on a screen, and the last of them would
stay there until the first file is compiled. Such lines have no summary.
`tasks.diagnosis.first_error` decides whether a line is an error.
"""

from __future__ import annotations

import re

from tasks.core.ninja_progress import parse_ninja_step

_PERCENT = re.compile(r"\[\s*\d+%\]\s*")  # of CMake's Makefile generator
_NAME = r"(\"[^\"]+\"|'[^']+'|\S+)"
_INPUT = re.compile(rf"(?<=\s)[-/](?:c\s+|T[cp]\s*)(?={_NAME})")  # of cl: /Tpx.cpp
_OUTPUT = re.compile(rf"\s(?:-o\s+|/(?:out|OUT):){_NAME}")
_ARCHIVE = re.compile(r"\s(\S+\.(?:a|lib))(?=\s|$)")
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".hip", ".m", ".mm", ".s", ".S", ".asm", ".rc")
_WARNING = re.compile(r"(?:^|[:)] )(?:[Cc]ommand line )?warning(?: [#A-Z]+\d[\w-]*)? ?:")
_MAX_LENGTH = 200  # characters
# Summaries of lines that are neither a step nor a compiler command; the first match is used
_PHRASES = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"-- ((?:Performing Test|Looking for|Found) \S+)", r"\1"),
        (r"-- Detecting (\S+) compile", r"looking at the \1 compiler"),
        (r"-- (?:Configuring|Generating) done", "configured"),
        (r"-- Build files have been written", "compiling"),
        (r"-- (?:Install configuration|Installing|Up-to-date|Set non-toolchain)", "installing"),
        (r"building '(\S+)' extension", r"compiling \1"),  # setuptools
        (r"[Aa]dding '(?:\S*/)?(\S+)'$", r"adding \1"),
        (r"[Cc]opying (?:\S*/)?(\S+) (?:->|to|from) ", r"copying \1"),
        (r"\*\*\* Configuring CMake", "configuring"),  # scikit-build-core
        (r"\*\*\* Building project", "compiling"),
        (r"\*\*\* Installing project", "installing"),
        (r"\*\*\* Making wheel", "making the wheel"),
        (r"((?:Cloning|Downloading|Extracting|Fetching|Unpacking) .+)", r"\1"),
    )
)


def is_warning(line: str) -> bool:
    """Return True if the line is a compiler warning.

    Examples: `x.cpp:3:1: warning: …`, `x.cu(3): warning #177-D: …`, `x.cpp(3): warning C4244: …`.
    """
    return _WARNING.search(line) is not None


def summarize_line(line: str) -> str:
    """Return a short summary of a line, "" if the line is not worth showing.

    `x.cpp` for a compiler command, `libc10.so` for a linker command, `cmake -E copy` for a step.
    """
    text = line.strip()
    step, percent = parse_ninja_step(text), _PERCENT.match(text)
    if step or percent:
        command = step.text if step else _PERCENT.sub("", text, count=1)
        summary = (
            _find_file_name(command) or _find_program_name(command) or _summarize_step(command)
        )
    else:
        summary = _match_phrase(text) or _find_file_name(text)
    return summary[:_MAX_LENGTH]


def _match_phrase(text: str) -> str:
    matches = ((pattern.match(text), words) for pattern, words in _PHRASES)
    return next((match.expand(words) for match, words in matches if match), "")


def _summarize_step(told: str) -> str:
    """Return the file name in the description of a step, or the whole description.

    `x.cpp` for CMake's "Building CXX object x.cpp.o".
    """
    last_word = told.rpartition(" ")[2]
    return (
        _extract_base_name(last_word)
        if _is_path(last_word) or "." in last_word.strip(".")
        else told
    )


def _find_file_name(command: str) -> str:
    """Return the source or output of a compiler, linker or archiver; "" for other programs."""
    inputs = (_extract_base_name(name) for name in _INPUT.findall(command))
    for name in inputs:
        if name.endswith(_SOURCES):
            return name
    if output := _OUTPUT.search(command):
        return _extract_base_name(output[1])
    archive = _ARCHIVE.search(command) if " && " in command else None
    return _extract_base_name(archive[1]) if archive else ""


def _find_program_name(command: str) -> str:
    """Return the program that a command runs, "" if the text is not a command.

    Examples: `generate_code.py`, `tools.pyi.gen_pyi`, `cmake -E copy`, `protoc`.
    """
    if " && " not in command and not _is_path(command.partition(" ")[0]):
        return ""
    parts = (part.split() for part in command.split(" && "))
    words = next((part for part in parts if part and part[0] not in ("cd", ":")), [command])
    program, *arguments = words
    if _extract_base_name(program).startswith("python"):
        names = (word.removeprefix("-m") for word in arguments)
        return _extract_base_name(
            next((name for name in names if name and name[0] != "-"), program)
        )
    return " ".join(
        [_extract_base_name(program), *(arguments[:2] if arguments[:1] == ["-E"] else ())]
    )


def _extract_base_name(name: str) -> str:
    base = re.split(r"[\\/]", name.strip("\"'"))[-1]
    return base.removesuffix(".o").removesuffix(".obj")


def _is_path(word: str) -> bool:
    return "/" in word or "\\" in word
