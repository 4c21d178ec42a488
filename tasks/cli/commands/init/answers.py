"""What a person answered, read and held against the knowledge, and config/local.yaml of it. Pure
but for the look whether a path is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from tasks.core.errors import SettingsError
from tasks.core.model import Strategy
from tasks.core.suggest import format_did_you_mean
from tasks.knowledge import Knowledge
from tasks.knowledge.extensions import find_extension
from tasks.knowledge.gpus import resolve_gpu

SCHEMA_LINE = "# yaml-language-server: $schema={}schema.json"
SPLATTING_EXTENSIONS = ("diff-gaussian-rasterization", "simple-knn")
STRATEGIES = ("auto", *get_args(Strategy))
_FILE_HEADER = """\
# Yours alone: git ignores this file, and what stands in it goes before the profile. Every key is in
# config/default.yaml; doit settings tells what came out. Written by doit init.
"""
_EXCLUSIVE_ANSWERS = {
    "cpu": "what is built for cards runs on the CPU, too; cpu alone is a build without CUDA",
    "auto": "auto alone is the cards of this machine",
}
_NONE_WORDS = {"none", "no", "-"}
_URL_PATTERN = re.compile(r"[a-z+]+://|[\w.-]+@[\w.-]+:")
_PLAIN_SCALAR = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_YAML_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n"}

ExtensionEntry = str | Mapping[str, str]  # an extension by its name, or with its source


@dataclass(frozen=True)
class Answers:
    """The four of them. None leaves a key to the profile. `python` is the interpreter that has the
    torch, or the one that an environment of another Python asks for; `into` where all of it goes.
    `companions` are asked of nobody: they follow from what lies there.
    """

    gpus: tuple[str, ...] | str | None = None
    strategy: str | None = None
    extensions: tuple[ExtensionEntry, ...] | None = None
    python: str = ""
    into: str = ""
    companions: tuple[str, ...] | None = None


def parse_gpus(text: str, knowledge: Knowledge) -> tuple[str, ...] | str:
    """`RTX 5090, 8.9`, `cpu` (no card), or `auto`. Raises `KnowledgeError` that suggests."""
    if text.strip().lower() in {"cpu", *_NONE_WORDS}:
        return ()
    if text.strip().lower() == "auto":
        return "auto"
    names = _split_names(text)
    if not names:
        raise SettingsError("no card is named", hint='write "RTX 5090", say, or cpu for none')
    for name in names:
        _require_gpu(name, knowledge)
    return names


def _require_gpu(name: str, knowledge: Knowledge) -> None:
    """`cpu` and `auto` are whole answers."""
    word = "cpu" if name.lower() in _NONE_WORDS else name.lower()
    if word in _EXCLUSIVE_ANSWERS:
        raise SettingsError(
            f'"{name}" stands beside cards', hint=f"leave it out: {_EXCLUSIVE_ANSWERS[word]}"
        )
    resolve_gpu(knowledge, name)


def parse_strategy(text: str) -> str:
    """One of `WAYS`. Raises `SettingsError` that suggests."""
    word = text.strip().lower()
    if word in STRATEGIES:
        return word
    raise SettingsError(
        f'"{text}" is no way to a torch{format_did_you_mean(word, STRATEGIES)}',
        hint=f"choose one of: {', '.join(STRATEGIES)}",
    )


def parse_extensions(text: str, knowledge: Knowledge, root: Path) -> tuple[ExtensionEntry, ...]:
    """Names of known ones, `3dgs` (the two of Gaussian Splatting), folders and git URLs, with
    commas between; `none`. Raises `SettingsError` that suggests.
    """
    if text.strip().lower() in _NONE_WORDS:
        return ()
    found: dict[str, ExtensionEntry] = {}
    for word in _split_names(text):
        for one in SPLATTING_EXTENSIONS if word.lower() == "3dgs" else (word,):
            listed = _parse_extension(one, knowledge, root)
            found[listed if isinstance(listed, str) else listed["name"]] = listed
    return tuple(found.values())


def _parse_extension(word: str, knowledge: Knowledge, root: Path) -> ExtensionEntry:
    if known := find_extension(knowledge, word):
        return known.name
    if _URL_PATTERN.match(word):
        return {"name": _derive_extension_name(word.removesuffix(".git")), "git": word}
    folder = root / Path(word).expanduser()
    if folder.is_dir():
        return {"name": _derive_extension_name(str(folder.resolve())), "path": word}
    if "/" in word or "\\" in word or word.startswith("~"):
        raise SettingsError(f"there is no folder {folder}", hint="correct the path")
    near = format_did_you_mean(word, (*knowledge.extensions, "3dgs"))
    raise SettingsError(
        f'"{word}" is no known extension{near}',
        hint="write a name of docs/knowledge.md, a folder, or the URL of a git repository",
    )


def _derive_extension_name(place: str) -> str:
    """An extension's name, of the last part of where it is."""
    last = re.split(r"[/\\:]", place.rstrip("/\\"))[-1]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._") or "mine"


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


def format_local_yaml(answers: Answers) -> str:
    """The file: what was answered, and nothing else."""
    return (
        "\n".join(
            [SCHEMA_LINE.format(""), _FILE_HEADER.rstrip(), "", *_format_yaml_lines(answers)]
        ).rstrip()
        + "\n"
    )


def _format_yaml_lines(answers: Answers) -> Iterator[str]:
    if answers.python:
        yield from (f"python: {_quote_yaml_scalar(answers.python)}", "")
    if answers.gpus is not None:
        listed = answers.gpus if isinstance(answers.gpus, str) else _format_yaml_list(answers.gpus)
        yield from ("target:", f"  gpus: {listed}", "")
    if answers.strategy is not None:
        yield from ("torch:", f"  strategy: {answers.strategy}", "")
    if answers.into:
        yield from ("install:", f"  into: {_quote_yaml_scalar(answers.into)}", "")
    if answers.companions is not None:
        yield from (f"companions: [{', '.join(answers.companions)}]", "")
    if answers.extensions == ():
        yield "extensions: []"
    elif answers.extensions:
        yield "extensions:"
        yield from (f"  - {_format_yaml_item(one)}" for one in answers.extensions)


def _format_yaml_list(names: tuple[str, ...]) -> str:
    return f"[{', '.join(json.dumps(name, ensure_ascii=False) for name in names)}]"


def _format_yaml_item(one: ExtensionEntry) -> str:
    if isinstance(one, str):
        return _quote_yaml_scalar(one)
    return "{" + ", ".join(f"{key}: {_quote_yaml_scalar(text)}" for key, text in one.items()) + "}"


def _quote_yaml_scalar(text: str) -> str:
    """As YAML reads it back: quoted where it could be taken for something else."""
    if _PLAIN_SCALAR.fullmatch(text) and text.lower() not in _YAML_WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)
