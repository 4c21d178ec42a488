"""Facts about GPUs, toolkits, releases, compilers and extensions, and queries over them.

Only `knowledge_files_io` does I/O: it reads a file of config/knowledge when a fact is needed.
"""

from tasks.knowledge.knowledge_files import Knowledge

__all__ = ["Knowledge"]
