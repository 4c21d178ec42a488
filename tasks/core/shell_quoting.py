"""Quote and validate values and names for POSIX shells, PowerShell, cmd and GitHub workflows."""

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
    """Return `text`. A NUL or surrogate in it raises a `TorchyardError` that names `where`."""
    if "\0" in text:
        raise _build_value_error(text, where, "it contains a NUL character")
    if _SURROGATES.search(text):
        raise _build_value_error(text, where, "it contains half a character (a surrogate)")
    return text


def _build_value_error(text: str, where: str, why: str) -> TorchyardError:
    excerpt = text if len(text) <= 60 else f"{text[:59]}…"
    hint = "remove the value from its setting; doit settings shows where it is set"
    return TorchyardError(f"{where} cannot contain the value {excerpt!r}: {why}", hint=hint)


def _require_name(
    name: str, shell: str, pattern: re.Pattern[str], allowed: str = "letters, digits and _"
) -> str:
    if not pattern.fullmatch(name):
        hint = f"rename it: use {allowed}, and do not start with a digit"
        raise TorchyardError(f"{name!r} is not a valid name of a variable in {shell}", hint=hint)
    return name


# Variables that bash, dash or zsh sets or treats specially on startup. From `readonly -p` and
# `typeset` of a newly started shell, zshparam(1), and zsh/parameter in zshmodules(1)
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
    """Return the name `text`. Raises `TorchyardError` if no POSIX script can set that variable."""
    if text in _RESERVED_NAMES:
        message = f"bash, dash or zsh reserves the variable {text}, so that no script can set it"
        hint = "remove the variable, or set it where you start the program"
        raise TorchyardError(message, hint=hint)
    return _require_name(text, "a POSIX shell", SHELL_IDENTIFIER)


def format_posix_assignment(variable: str, value: str) -> str:
    """Return `NAME='value'`."""
    return f"{check_posix_name(variable)}={quote_posix(value)}"


_POWERSHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.() -]*")
# All of these are single quotes (about_Quoting_Rules; CharTraits.IsSingleQuote in its tokenizer)
_SINGLE_QUOTES = re.compile("(['\u2018\u2019\u201a\u201b])")


def quote_powershell(text: str) -> str:
    """Return `text` in single quotes for PowerShell. Single and typographic quotes are doubled."""
    quoted = _SINGLE_QUOTES.sub(r"\1\1", require_representable(text, "a PowerShell script"))
    return f"'{quoted}'"


def check_powershell_name(text: str) -> str:
    """Return the name `text`. Raises `TorchyardError` if PowerShell rejects such a variable."""
    return _require_name(text, "PowerShell", _POWERSHELL_NAME, "letters, digits and _.()-")


def format_powershell_variable(text: str) -> str:
    """Return `$env:NAME`, or `${env:ProgramFiles(x86)}` if the name is not an identifier."""
    name = check_powershell_name(text)
    return f"$env:{name}" if SHELL_IDENTIFIER.fullmatch(name) else f"${{env:{name}}}"


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
    """Return `set "NAME=value"` for a batch file. `delayed` means that delayed expansion is on."""
    line = f'set "{check_cmd_name(variable)}={quote_cmd(value, delayed=delayed)}'
    # 40 characters are left for text before it on the line; the delayed form is measured separately
    if len(line) + 40 > MAX_CMD_LINE:
        why = f"cmd cannot read a line of more than {MAX_CMD_LINE} characters"
        raise _build_value_error(value, _BATCH_FILE, why)
    return line


def quote_cmd(text: str, *, delayed: bool = False) -> str:
    """Return `text` escaped for cmd, with a closing quote but without an opening one."""
    if _CMD_LINE_ENDS.search(require_representable(text, _BATCH_FILE)):
        raise _build_value_error(text, _BATCH_FILE, "it has more than one line")
    if delayed and "!" in text:
        text = text.replace("^", "^^").replace("!", "^!")
    escaped, in_quotes = "", True
    for character in text.replace("%", "%%"):
        in_quotes ^= character == '"'  # outside of quotes, special characters need a caret
        escaped += "^" * (not in_quotes and character in _CMD_SPECIAL_CHARACTERS) + character
    return escaped + ('"' if in_quotes else '^"')


def check_cmd_name(text: str) -> str:
    """Return the name `text`. Raises `TorchyardError` if it is invalid for a variable in cmd."""
    return _require_name(text, "cmd", SHELL_IDENTIFIER)


def sanitize_cmd_comment(text: str) -> str:
    """Return `text` for a `rem` line, with "?" for each character that cmd would interpret."""
    return _CMD_COMMENT_CHARACTERS.sub("?", sanitize_comment(text))


def quote_github_yaml(text: str) -> str:
    """Return `text` as a quoted YAML string. `${{` is escaped: GitHub does not evaluate it."""
    return json.dumps(text.replace("${{", "${{ '${{' }}"))
