"""What CMake says it was given and did not use: most often a switch that is misspelled. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

_UNUSED_HEADING = "Manually-specified variables were not used by the project:"


@dataclass
class UnusedVariables:
    """Reads the lines of a configure; `names` are those of the variables that were `asked` for."""

    requested: Collection[str]
    names: list[str] = field(default_factory=list)
    _listing: bool = False

    def read_line(self, line: str) -> None:
        """One line of what CMake prints. The list is indented, with an empty line before it."""
        text = line.strip()
        if _UNUSED_HEADING in text:
            self._listing = True
        elif text and not line.startswith(" "):
            self._listing = False
        elif self._listing and text in self.requested and text not in self.names:
            self.names.append(text)
