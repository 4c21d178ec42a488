"""The newest PyTorch and CUDA releases of config/knowledge, and releases that it does not know yet.

Tests use these values for "the newest" and "not known", so that adding a release breaks no test.
"""

from __future__ import annotations

from tasks.core.model import Arch
from tasks.knowledge.gpus import find_only_machine
from tasks.knowledge.knowledge_files_io import KNOWLEDGE_FOLDER, load_knowledge
from tasks.knowledge.torch_releases import find_release
from tasks.knowledge.versions import parse_major_minor
from tasks.settings.schema import parse_settings

_KNOWLEDGE = load_knowledge(KNOWLEDGE_FOLDER)
PREVIOUS_RELEASE, NEWEST_RELEASE = list(_KNOWLEDGE.releases.values())[-2:]
NEWEST_TOOLKIT = list(_KNOWLEDGE.toolkits.values())[-1]
_DEFAULT = parse_settings({}).torch.version
_TORCH_MAJOR, _TORCH_MINOR = parse_major_minor(NEWEST_RELEASE.minor)
_CUDA_MAJOR, _CUDA_MINOR = parse_major_minor(NEWEST_TOOLKIT.cuda)

# Used for an RTX 5090 by a profile that sets no torch.version
DEFAULT_RELEASE = NEWEST_RELEASE if _DEFAULT == "auto" else find_release(_KNOWLEDGE, _DEFAULT)
NEXT_MINOR = f"{_TORCH_MAJOR}.{_TORCH_MINOR + 1}"  # the PyTorch release after the newest
NEXT_TORCH = f"{NEXT_MINOR}.0"
LATER_TORCH = f"{_TORCH_MAJOR + 1}.1.0"  # of a later major version
LATER_PATCH = f"{NEWEST_RELEASE.minor}.{int(NEWEST_RELEASE.patch.rpartition('.')[2]) + 1}"
NEXT_CUDA = f"{_CUDA_MAJOR}.{_CUDA_MINOR + 1}"  # the CUDA release after the newest
LATER_CUDA = f"{_CUDA_MAJOR + 1}.0"  # of a later major version

_ARCHS = [arch for arch in NEWEST_TOOLKIT.sm if not find_only_machine(_KNOWLEDGE, arch)[0]]
NEWEST_ARCH = max(_ARCHS)  # that both kinds of machines have
# No toolkit compiles for these: the first runs code for NEWEST_ARCH, the second only PTX
NEXT_MINOR_ARCH = Arch(NEWEST_ARCH.major, 9)
NEXT_MAJOR_ARCH = Arch(max(arch.major for arch in NEWEST_TOOLKIT.sm) + 1, 0)
