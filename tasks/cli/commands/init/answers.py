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
from tasks.core.suggest import did_you_mean
from tasks.knowledge import Knowledge
from tasks.knowledge.extensions import called
from tasks.knowledge.gpus import resolve_gpu

SCHEMA_LINE = "# yaml-language-server: $schema={}schema.json"
SPLATTING = ("diff-gaussian-rasterization", "simple-knn")
WAYS = ("auto", *get_args(Strategy))
_HEAD = """\
# Yours alone: git ignores this file, and what stands in it goes before the profile. Every key is in
# config/default.yaml; doit settings tells what came out. Written by doit init.
"""
_ALONE = {
    "cpu": "what is built for cards runs on the CPU, too; cpu alone is a build without CUDA",
    "auto": "auto alone is the cards of this machine",
}
_NONE = {"none", "no", "-"}
_URL = re.compile(r"[a-z+]+://|[\w.-]+@[\w.-]+:")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_YAML_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n"}

Listed = str | Mapping[str, str]  # an extension by its name, or with its source


@dataclass(frozen=True)
class Answers:
    """The four of them. None leaves a key to the profile. `python` is the interpreter that has the
    torch, or the one that an environment of another Python asks for; `into` where all of it goes.
    `companions` are asked of nobody: they follow from what lies there.
    """

    gpus: tuple[str, ...] | str | None = None
    way: str | None = None
    extensions: tuple[Listed, ...] | None = None
    python: str = ""
    into: str = ""
    companions: tuple[str, ...] | None = None


def cards(text: str, knowledge: Knowledge) -> tuple[str, ...] | str:
    """`RTX 5090, 8.9`, `cpu` (no card), or `auto`. Raises `KnowledgeError` that suggests."""
    if text.strip().lower() in {"cpu", *_NONE}:
        return ()
    if text.strip().lower() == "auto":
        return "auto"
    names = _split(text)
    if not names:
        raise SettingsError("no card is named", todo='write "RTX 5090", say, or cpu for none')
    for name in names:
        _require_card(name, knowledge)
    return names


def _require_card(name: str, knowledge: Knowledge) -> None:
    """`cpu` and `auto` are whole answers."""
    word = "cpu" if name.lower() in _NONE else name.lower()
    if word in _ALONE:
        raise SettingsError(f'"{name}" stands beside cards', todo=f"leave it out: {_ALONE[word]}")
    resolve_gpu(knowledge, name)


def way(text: str) -> str:
    """One of `WAYS`. Raises `SettingsError` that suggests."""
    word = text.strip().lower()
    if word in WAYS:
        return word
    raise SettingsError(
        f'"{text}" is no way to a torch{did_you_mean(word, WAYS)}',
        todo=f"choose one of: {', '.join(WAYS)}",
    )


def extensions(text: str, knowledge: Knowledge, root: Path) -> tuple[Listed, ...]:
    """Names of known ones, `3dgs` (the two of Gaussian Splatting), folders and git URLs, with
    commas between; `none`. Raises `SettingsError` that suggests.
    """
    if text.strip().lower() in _NONE:
        return ()
    found: dict[str, Listed] = {}
    for word in _split(text):
        for one in SPLATTING if word.lower() == "3dgs" else (word,):
            listed = _extension(one, knowledge, root)
            found[listed if isinstance(listed, str) else listed["name"]] = listed
    return tuple(found.values())


def _extension(word: str, knowledge: Knowledge, root: Path) -> Listed:
    if known := called(knowledge, word):
        return known.name
    if _URL.match(word):
        return {"name": _named(word.removesuffix(".git")), "git": word}
    folder = root / Path(word).expanduser()
    if folder.is_dir():
        return {"name": _named(str(folder.resolve())), "path": word}
    if "/" in word or "\\" in word or word.startswith("~"):
        raise SettingsError(f"there is no folder {folder}", todo="correct the path")
    near = did_you_mean(word, (*knowledge.extensions, "3dgs"))
    raise SettingsError(
        f'"{word}" is no known extension{near}',
        todo="write a name of docs/knowledge.md, a folder, or the URL of a git repository",
    )


def _named(place: str) -> str:
    """An extension's name, of the last part of where it is."""
    last = re.split(r"[/\\:]", place.rstrip("/\\"))[-1]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._") or "mine"


def _split(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


def local_yaml(answers: Answers) -> str:
    """The file: what was answered, and nothing else."""
    return "\n".join([SCHEMA_LINE.format(""), _HEAD.rstrip(), "", *_lines(answers)]).rstrip() + "\n"


def _lines(answers: Answers) -> Iterator[str]:
    if answers.python:
        yield from (f"python: {_written(answers.python)}", "")
    if answers.gpus is not None:
        listed = answers.gpus if isinstance(answers.gpus, str) else _row(answers.gpus)
        yield from ("target:", f"  gpus: {listed}", "")
    if answers.way is not None:
        yield from ("torch:", f"  strategy: {answers.way}", "")
    if answers.into:
        yield from ("install:", f"  into: {_written(answers.into)}", "")
    if answers.companions is not None:
        yield from (f"companions: [{', '.join(answers.companions)}]", "")
    if answers.extensions == ():
        yield "extensions: []"
    elif answers.extensions:
        yield "extensions:"
        yield from (f"  - {_item(one)}" for one in answers.extensions)


def _row(names: tuple[str, ...]) -> str:
    return f"[{', '.join(json.dumps(name, ensure_ascii=False) for name in names)}]"


def _item(one: Listed) -> str:
    if isinstance(one, str):
        return _written(one)
    return "{" + ", ".join(f"{key}: {_written(text)}" for key, text in one.items()) + "}"


def _written(text: str) -> str:
    """As YAML reads it back: quoted where it could be taken for something else."""
    if _PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)
