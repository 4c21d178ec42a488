"""Facts, and what they answer: cards, toolkits, wheels, and what does not work together.

`load(folder)` gives the `Knowledge` of config/knowledge, `FOLDER` where nobody names another, and
reads each file when it is asked for first; every other function takes it as its first argument. All
but that reading is pure.
"""

from __future__ import annotations

from tasks.knowledge.knowledge_files import KNOWLEDGE_FOLDER, Knowledge, load_knowledge

__all__ = ["KNOWLEDGE_FOLDER", "Knowledge", "load_knowledge"]
