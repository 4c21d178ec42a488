"""sh as POSIX has it, for bash, dash and zsh alike. Pure."""

from __future__ import annotations

from tasks.core.errors import TorchyardError
from tasks.core.quoting.text import SHELL_IDENTIFIER, create_name_error, require_representable

# Names that bash, dash or zsh sets, or reads in a way of its own, as soon as it runs: what is
# assigned to them is refused, or means something else. From `readonly -p` and `typeset` of a shell
# that was just started, zshparam(1), and zsh/parameter in zshmodules(1)
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
    """A word in single quotes; it may hold anything but NUL."""
    return "'" + require_representable(text, "a shell script").replace("'", r"'\''") + "'"


def check_posix_name(text: str) -> str:
    """The name of a variable."""
    if not SHELL_IDENTIFIER.fullmatch(text):
        raise create_name_error(text, "a POSIX shell")
    if text in _RESERVED_NAMES:
        raise TorchyardError(
            f"bash, dash or zsh keeps the variable {text} for itself, and no script can set it",
            hint="take it out, or set it where the program is started",
        )
    return text


def format_posix_assignment(variable: str, value: str) -> str:
    """`NAME='value'`."""
    return f"{check_posix_name(variable)}={quote_posix(value)}"
