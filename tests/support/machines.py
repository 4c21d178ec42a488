"""Machines that share a compiler cache, or the work, and nothing else: each with a checkout and a
tree in a folder of its own, a user, and a cache that nobody has used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.runlog import build_history_io
from tests.integration.conftest import source_profile
from tests.support.toytree import make_tree
from tests.support.yard import Yard

_LIGHT = """
#include <string>
int many_{number}(const std::string& text) {{ return static_cast<int>(text.size()) + {number}; }}
"""
_HEAVY = """
#include <map>
#include <regex>
#include <string>
#include <vector>
std::map<std::string, std::vector<int>> table_{number};
int many_{number}(const std::string& text) {{
  if (std::regex_match(text, std::regex(text))) return 0;
  table_{number}[text].push_back({number});
  return static_cast<int>(table_{number}.size());
}}
"""


class Machine:
    """`count` sources, `heavy` or not, in the target many of the toy tree. `remote` is the cache
    that it shares, "" for none.
    """

    def __init__(self, folder: Path, remote: str, count: int, *, heavy: bool = False) -> None:
        self.yard = Yard(folder / "checkout")
        self.yard.cache = "ccache"
        self.remote = remote
        self.tree = make_tree(folder / "pytorch")
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self._add(count, _HEAVY if heavy else _LIGHT)
        profile = source_profile(self.tree)
        # for the compilers alone: what installs packages may be configured in the real home
        mine = {"HOME": str(self.home), "XDG_CACHE_HOME": str(self.home / ".cache")}
        build = {"target": "many", "env": mine}
        self.yard.profile(**{**profile, "build": build})

    def _add(self, count: int, source: str) -> None:
        for number in range(count):
            self.source(number).parent.mkdir(exist_ok=True)
            self.source(number).write_text(source.format(number=number), encoding="utf-8")
        lists = self.tree / "CMakeLists.txt"
        names = " ".join(f"many/m{number}.cpp" for number in range(count))
        with lists.open("a", encoding="utf-8") as stream:
            stream.write(f"\nadd_library(many OBJECT {names})\n")

    def source(self, number: int) -> Path:
        return self.tree / "many" / f"m{number}.cpp"

    def build(self, remote: str = "", **env: str) -> str:
        if shared := remote or self.remote:
            env["TORCHYARD__BUILD__CACHE_REMOTE"] = shared
        code, out = self.yard.doit("compile", env=env)
        assert code == 0, out
        return out

    def object(self, number: int) -> Path:
        found = (self.tree / "build").rglob(f"m{number}.cpp.o")
        return next(found)

    def last(self) -> Mapping[str, Any]:
        """What the last run of compile left for people."""
        *_, run = build_history_io.read_history(self.yard.build / "records" / "compile.jsonl")
        return run
