"""Apply what a hint suggests, as a user would who reads it: change the settings or the host."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tasks.core.model import Host, InstalledToolkit
from tests.support.checkout import KNOWLEDGE
from tests.support.newest import NEXT_CUDA

Given = dict[str, Any]
CUDAS = list(KNOWLEDGE.toolkits)


def apply_hint(line: str, requested: Given, host: Host) -> list[tuple[Given, Host]]:
    """Return the settings and the host of each alternative in a hint, [] if it names none.

    A hint to build in several profiles gives the settings of each.
    """
    line, by_path, path_keys = line.partition(", or set toolkit.path to it")
    changed: Given = {key: dict(part) for key, part in requested.items() if key != "extensions"}
    changed["extensions"] = requested.get("extensions", [])
    if profiles := re.fullmatch(r"build for (.+) in \d+ profiles", line):
        names = profiles[1].split(" and ")
        return [({**changed, "target": {"gpus": [name]}}, host) for name in names]
    python = re.search(r'(?:python: "|environment with Python )(\d\.\d+)', line)
    gpus = re.search(r"target\.gpus: \[(.*?)\]", line)
    torch = re.search(r'(?:torch\.version: ")(\d\.\d+\.\d+)', line)
    keys = dict(re.findall(r'toolkit\.(version|provider): "?([\w.]+)', line))
    install = re.search(r"install CUDA (\d+\.\d+)", line)
    own = re.search(r"set toolkit\.path to CUDA (.+)", line)
    source = "torch.strategy: source" in line
    if not any((python, gpus, torch, keys, install, own, source)):
        return []
    there = replace(host, python=replace(host.python, version=python[1])) if python else host
    changed["target"] |= {"gpus": re.findall(r'"(.+?)"', gpus[1])} if gpus else {}
    changed["torch"] |= {"version": torch[1]} if torch else {}
    changed["torch"] |= {"strategy": "source"} if source else {}
    toolkit = changed["toolkit"]
    changed["toolkit"] = toolkit | keys
    if own:
        kits = [InstalledToolkit("/opt/cuda", f"{cuda}.1", asked=True) for cuda in _span(own[1])]
        return [(changed, replace(there, toolkits=(kit,))) for kit in kits]
    if not install:
        return [(changed, there)]
    kit = InstalledToolkit("/new", f"{install[1]}.1")
    ways = [(changed, replace(there, toolkits=(kit, *there.toolkits)))]
    if by_path:  # in place of the keys before "or"
        provider = {"provider": "path"} if "provider: path" in path_keys else {}
        by_path_keys = toolkit | provider | {"path": kit.home}
        asked = replace(kit, asked=True)
        there = replace(there, toolkits=(asked, *there.toolkits))
        ways.append(({**changed, "toolkit": by_path_keys}, there))
    return ways


def _span(text: str) -> list[str]:
    named = re.findall(r"\d+\.\d+", text)
    if " or later" in text:
        return [*CUDAS[CUDAS.index(named[0]) :], NEXT_CUDA]
    if " to " in text:
        return CUDAS[CUDAS.index(named[0]) : CUDAS.index(named[1]) + 1]
    return named
