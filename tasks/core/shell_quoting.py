"""Quote and validate values and names for POSIX shells, PowerShell, cmd and GitHub workflows."""

from __future__ import annotations

import json
import re

from tasks.core.errors import TorchyardError

SHELL_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def sanitize_comment(text: str) -> str:
    """Return `text` for a one-line comment, with "?" for control characters and surrogates."""
    return _SURROGATES.sub("?", _CONTROL_CHARACTERS.sub("?", text))


def require_representable(text: str, where: str) -> str:
    """Return `text` unchanged. Raises `TorchyardError` if UTF-8 or a C string cannot hold it."""
    if "\0" in text:
        raise create_value_error(text, where, "there is a NUL character in it")
    if _SURROGATES.search(text):
        raise create_value_error(
            text, where, "there is half a character in it, which UTF-8 does not have"
        )
    return text


def create_value_error(text: str, where: str, why: str) -> TorchyardError:
    """Return the error for a value that `where` cannot hold."""
    excerpt = text if len(text) <= 60 else f"{text[:59]}…"
    return TorchyardError(
        f"{where} cannot hold the value {excerpt!r}: {why}",
        hint="take it out of the setting that the value comes from (doit settings names it)",
    )


def create_name_error(
    name: str, shell: str, allowed: str = "letters, digits and _"
) -> TorchyardError:
    """Return the error for a variable name that `shell` does not accept."""
    return TorchyardError(
        f"{shell} cannot hold a variable named {name!r}",
        hint=f"rename it: {allowed}, not starting with a digit",
    )


# Names that bash, dash or zsh sets or treats specially on startup: an assignment is rejected or has
# another meaning. From `readonly -p` and `typeset` of a newly started shell, zshparam(1), and
# zsh/parameter in zshmodules(1)
_RESERVED_NAMES_TEXT = """
_ BASHOPTS BASHPID BASH_ARGC BASH_ARGV BASH_COMMAND BASH_LINENO BASH_SOURCE BASH_SUBSHELL
BASH_VERSINFO DIRSTACK EUID FUNCNAME GROUPS LINENO PIPESTATUS PPID RANDOM SECONDS SHELLOPTS
SRANDOM EPOCHREALTIME EPOCHSECONDS UID IFS OPTARG OPTIND PS1 PS2 PS3 PS4 PWD OLDPWD SHLVL
ARGC ARGV0 EGID ERRNO FUNCNEST GID HISTCHARS HISTCMD HISTSIZE KEYTIMEOUT LISTMAX PROMPT PROMPT2
PROMPT3 PROMPT4 SAVEHIST TRY_BLOCK_ERROR TRY_BLOCK_INTERRUPT TTY TTYIDLE USERNAME WORDCHARS
ZSH_EVAL_CONTEXT ZSH_SUBSHELL ZSH_ARGZERO ZSH_NAME ZSH_VERSION COLUMNS LINES
argv cdpath fignore fpath histchars mailpath manpath module_path path pipestatus prompt psvar
signals status watch zsh_eval_context zsh_scheduled_events
aliases builtins commands dirstack funcfiletrace funcsourcetrace funcstack functions
functions_source functrace galiases history historywords jobdirs jobstates jobtexts modules
nameddirs options parameters patchars reswords saliases userdirs usergroups
dis_aliases dis_builtins dis_functions dis_functions_source dis_galiases dis_patchars dis_reswords
dis_saliases
"""
_RESERVED_NAMES = frozenset(_RESERVED_NAMES_TEXT.split())


def quote_posix(text: str) -> str:
    """Return `text` in single quotes for a POSIX shell. Raises `TorchyardError` for NUL."""
    return "'" + require_representable(text, "a shell script").replace("'", r"'\''") + "'"


def check_posix_name(text: str) -> str:
    """Return a variable name that POSIX shells accept and do not reserve.

    Raises `TorchyardError` for any other name.
    """
    if not SHELL_IDENTIFIER.fullmatch(text):
        raise create_name_error(text, "a POSIX shell")
    if text in _RESERVED_NAMES:
        raise TorchyardError(
            f"bash, dash or zsh keeps the variable {text} for itself, and no script can set it",
            hint="take it out, or set it where the program is started",
        )
    return text


def format_posix_assignment(variable: str, value: str) -> str:
    """Return `NAME='value'`."""
    return f"{check_posix_name(variable)}={quote_posix(value)}"


_POWERSHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.() -]*")
# All of these are single quotes (about_Quoting_Rules; CharTraits.IsSingleQuote in its tokenizer)
_SINGLE_QUOTES = re.compile("(['\u2018\u2019\u201a\u201b])")


def quote_powershell(text: str) -> str:
    """Return `text` in single quotes for PowerShell.

    Typographic quotes are doubled too, because PowerShell also ends a string at them.
    """
    return (
        "'" + _SINGLE_QUOTES.sub(r"\1\1", require_representable(text, "a PowerShell script")) + "'"
    )


def check_powershell_name(text: str) -> str:
    """Return a variable name that PowerShell accepts, else raise `TorchyardError`."""
    if not _POWERSHELL_NAME.fullmatch(text):
        raise create_name_error(text, "PowerShell", "letters, digits and _.()-")
    return text


def format_powershell_variable(text: str) -> str:
    """Return `$env:NAME`, or `${env:ProgramFiles(x86)}` if the name is not an identifier."""
    return (
        f"$env:{check_powershell_name(text)}"
        if SHELL_IDENTIFIER.fullmatch(text)
        else f"${{env:{check_powershell_name(text)}}}"
    )


def format_powershell_assignment(text: str, value: str) -> str:
    """Return `$env:NAME = 'value'`."""
    return f"{format_powershell_variable(text)} = {quote_powershell(value)}"


# https://learn.microsoft.com/troubleshoot/windows-client/shell-experience/command-line-string-limitation
MAX_CMD_LINE = 8191
_BATCH_FILE = "a batch file"
# cmd also treats Ctrl+Z as the end of a line
_CMD_LINE_ENDS = re.compile(r"[\n\r\x1a]")
_CMD_SPECIAL_CHARACTERS = frozenset("&|<>^()")
_CMD_COMMENT_CHARACTERS = re.compile(r"[%!^&|<>\"~]")


def format_cmd_assignment(variable: str, value: str, *, delayed: bool = False) -> str:
    """Return `set "NAME=value"`, which is also valid within parentheses.

    `delayed` is for a shell with delayed expansion.
    """
    line = f'set "{check_cmd_name(variable)}={quote_cmd(value, delayed=delayed)}'
    # 40: room for the text before it on the line; the delayed form is measured separately
    if len(line) + 40 > MAX_CMD_LINE:
        raise create_value_error(
            value, _BATCH_FILE, f"cmd reads no line of more than {MAX_CMD_LINE} characters"
        )
    return line


def quote_cmd(text: str, *, delayed: bool = False) -> str:
    """Return `text` and the closing quote, to be placed after an opening quote.

    Quotes in `text` toggle quoting in cmd. Where they leave it off, special characters get a caret.
    """
    _check_single_line(text)
    has_delayed_mark = delayed and "!" in text
    escaped = text.replace("^", "^^").replace("!", "^!") if has_delayed_mark else text
    characters, in_quotes = [], True
    for character in escaped.replace("%", "%%"):
        in_quotes ^= character == '"'
        characters.append(
            f"^{character}" if not in_quotes and character in _CMD_SPECIAL_CHARACTERS else character
        )
    return "".join(characters) + ('"' if in_quotes else '^"')


def check_cmd_name(text: str) -> str:
    """Return a variable name that cmd accepts, also in a list of `for`.

    Raises `TorchyardError` for any other name.
    """
    if not SHELL_IDENTIFIER.fullmatch(text):
        raise create_name_error(text, "cmd")
    return text


def sanitize_cmd_comment(text: str) -> str:
    """Return `text` for a `rem` line, without percent signs, which cmd expands there too."""
    return _CMD_COMMENT_CHARACTERS.sub("?", sanitize_comment(text))


def _check_single_line(text: str) -> None:
    require_representable(text, _BATCH_FILE)
    if _CMD_LINE_ENDS.search(text):
        raise create_value_error(text, _BATCH_FILE, "it has more than one line")


def quote_github_yaml(text: str) -> str:
    """Return `text` as a double-quoted YAML string.

    `${{` is written as an expression that evaluates to it, because GitHub evaluates expressions in
    any string (docs.github.com, "Evaluate expressions").
    """
    return json.dumps(text.replace("${{", "${{ '${{' }}"))
