"""Facts about GPUs, toolkits, releases, compilers and extensions, and queries over them.

`tasks.knowledge.knowledge_files_io` reads config/knowledge. Each file is parsed when one of its
facts is first needed. The other modules do no I/O.
"""

from tasks.knowledge.knowledge_files import Knowledge

__all__ = ["Knowledge"]
