"""Facts, and what they answer: cards, toolkits, wheels, and what does not work together. Pure.

`load(folder)` gives the `Knowledge` of config/knowledge, `FOLDER` where nobody names another; every
other function takes it as its first argument.
"""

from __future__ import annotations

from tasks.knowledge.load import FOLDER, Knowledge, load

__all__ = ["FOLDER", "Knowledge", "load"]
