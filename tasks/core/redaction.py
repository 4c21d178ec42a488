"""What opens something is taken out of a text, whoever wrote it.

It runs over every line of every log, and over JSON as text: no value goes over the quote that
closes it, and what is dear to look for is looked for where a word of it is there.
"""

from __future__ import annotations

import re

_URL_CREDENTIALS = re.compile(r"(?<=://)[^/\s\"]+@")
# Names in a query whose value opens something: `token`, `X-Amz-Signature`, `AWSAccessKeyId`, `sig`.
# What ends a sentence is no part of a value, nor is what ends a string in a shell or in JSON.
_QUERY_PARAMETER = re.compile(
    r"""(
        (?:[?&\#]|&amp;)
        (?:
            [\w.~-]*(?:token|passw(?:or)?d|passphrase|secret|signature|credentials?)
            |[\w.~-]*(?:api|access|auth|private|secret|shared|subscription)-?key(?:-?id)?
            |(?:[\w.~-]*[._-])?(?:key|sig|pass|pwd?|auth|jwt|sas)
        )=
    )
    [^\s&\#"'<>\\]*[^\s&\#"'<>\\.,:;)\]}]""",
    re.IGNORECASE | re.VERBOSE,
)
_WORD_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"  # of a line in JSON, too
_SECRET_VALUE = r"""(?!\*\*\*|&)[^\s"'<>\\]*[^\s"'<>\\.,:;)\]}]"""  # noqa: S105
_AUTH_HEADER = re.compile(
    rf"""(
        authorization\\?["']?[ ]?[:=][ ]?\\?["']?
        (?!(?:\w+[ ]+)?\*)(?:(?:basic|bearer|token|digest|negotiate)[ ]+)?
        |{_WORD_START}bearer[ ]+(?=[\w.~+/=-]{{8}})
    )
    {_SECRET_VALUE}""",
    re.IGNORECASE | re.VERBOSE,
)
# `"password": "a b"`, `HF_TOKEN=…`, `aws_secret_access_key = …`, `password: x`. A token is also a
# word of compilers and of language models (`next_token = f()`, `max_tokens=4096`), and what comes
# after a colon may be a sentence about the variable.
_SECRET_WORD = (  # noqa: S105
    r"(?:passw(?:or)?ds?|passphrase|secrets?|credentials?|(?:api|access)[_-]?keys?)(?:_\w+)?"
)
_TOKEN_WORD = r"tokens?(?:_\w+)?"  # noqa: S105 - what a name looks like
_SECRET_ASSIGNMENT = re.compile(
    rf"""
    ((?:{_SECRET_WORD}|{_TOKEN_WORD})\\?["'][ ]?:[ ]?\\?["'])(?!\*\*\*)[^"'\\\n]+
    |((?:{_SECRET_WORD}[ ]?=[ ]?|{_TOKEN_WORD}=(?!\d+\b))\\?["']?){_SECRET_VALUE}
    |((?:{_SECRET_WORD}|{_TOKEN_WORD}):[ ](?=[^\s"'\\]*\d|[^\s"'\\]+(?:["'\\\n]|$))){_SECRET_VALUE}
    """,
    re.IGNORECASE | re.VERBOSE,
)
_TOKEN_PREFIX = re.compile(
    rf"{_WORD_START}(?:gh[pousr]_|github_pat_|hf_|glpat-|pypi-|xox[a-z]-|AKIA)[\w-]{{8,}}"
)
_SECRET_NAME = re.compile(
    r"(^|_)(TOKENS?|PASSWORDS?|PASSWD|SECRETS?|CREDENTIALS?|API_?KEYS?|ACCESS_KEYS?)($|_)",
    re.IGNORECASE,
)


def is_secret_name(variable: str) -> bool:
    """Whether a variable of this name usually holds something that must not be written down."""
    return _SECRET_NAME.search(variable) is not None


def redact_secrets(text: str) -> str:
    """Take passwords and tokens out of `text`: those of URLs with the user's name, of headers, of
    variables that are called like a secret, and those that tell by how they begin.
    """
    if "@" in text and "://" in text:
        text = _URL_CREDENTIALS.sub("***@", text)
    if "=" in text and ("?" in text or "&" in text or "#" in text):
        text = _QUERY_PARAMETER.sub(r"\1***", text)
    if "\n" in text:
        return "\n".join(map(_redact_line, text.split("\n")))
    return _redact_line(text)


def _redact_line(line: str) -> str:
    if _has_token_prefix(line):
        line = _TOKEN_PREFIX.sub("***", line)
    low = line.lower()
    if "authorization" in low or "bearer" in low:
        line = _AUTH_HEADER.sub(r"\1***", line)
    if _has_secret_word(low):
        line = _SECRET_ASSIGNMENT.sub(r"\1\2\3***", line)
    return line


# Twice as fast as any(): most lines have nothing of it, and are asked for all.
def _has_token_prefix(line: str) -> bool:
    return (
        "hf_" in line
        or "ghp_" in line
        or "gho_" in line
        or "ghu_" in line
        or "ghs_" in line
        or "ghr_" in line
        or "github_pat_" in line
        or "glpat-" in line
        or "pypi-" in line
        or "xox" in line
        or "AKIA" in line
    )


def _has_secret_word(low: str) -> bool:
    return (
        "token" in low
        or "pass" in low
        or "secret" in low
        or "credential" in low
        or ("key" in low and ("api" in low or "access" in low))
    )
