"""The forms that texts in the settings must have: each a pattern, and what it says in words."""

from __future__ import annotations

SHA256_PATTERN = r"^[0-9a-f]{64}$"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
MODULE_PATTERN = r"^[A-Za-z_][\w.]*$"
SWITCH_PATTERN = r"^(USE|BUILD)_[A-Z0-9_]+$"
VARIABLE_PATTERN = r"^[A-Za-z_]\w*$"
HEADER_PATTERN = r"^[\w./+-]+$"
RELEASE_PATTERN = r"^\d+\.\d+\.\d+[a-z0-9.]*$"
CUDA_PATTERN = r"^(auto|\d+\.\d+)$"
PYTHON_PATTERN = r"^\d+\.\d+(\.\d+)?$"
GPU_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9 ._/()-]*$"
LOCAL_VERSION_PATTERN = r"^(auto|none|[a-z0-9]+(\.[a-z0-9]+)*)$"
LOCAL_PART_PATTERN = r"^[a-z0-9]+(\.[a-z0-9]+)*$"
SIZE_PATTERN = r"^(auto|[1-9]\d*[MGT])$"
REMOTE_PATTERN = (  # behind the |: what ccache calls attributes
    r"^(rediss?|https?|s3)://([^\s\x00-\x1f/]+@)?(\[[\da-fA-F:.]+\]|[^\s\x00-\x1f/@:|\[\]]+)(:\d{1,5})?"
    r"(/[^\s|]*)?(\|\S+)?$"
)
HOST_PATTERN = r"^([A-Za-z_][\w.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,5})?(/[1-9]\d{0,2})?(,lzo)?$"
SDIST_PATTERN = r"^[A-Za-z0-9][\w.-]*==[\w.+!-]+$"
REQUIREMENT_PATTERN = (
    r"^[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?(\s*(==|!=|~=|<=|>=|<|>)\s*[\w.*+!-]+"
    r"(\s*,\s*(==|!=|~=|<=|>=|<|>)\s*[\w.*+!-]+)*)?$"
)

PATTERN_HINTS = {
    SHA256_PATTERN: "write the 64 hexadecimal digits of the file's sha256, in lower case",
    NAME_PATTERN: 'write letters, digits, ".", "_" and "-"',
    MODULE_PATTERN: 'write a module as Python imports it, such as "simple_knn._C"',
    SWITCH_PATTERN: "write USE_NAME or BUILD_NAME, in capitals; other variables go into build.env",
    VARIABLE_PATTERN: "write the name of a variable: letters, digits and _",
    HEADER_PATTERN: 'write a header as it is included, such as "cfloat"',
    RELEASE_PATTERN: 'write a whole release without a local part, such as "2.15.0"',
    CUDA_PATTERN: 'write auto, or major and minor, such as "13.2"',
    PYTHON_PATTERN: 'write a version, such as "3.12"',
    GPU_PATTERN: 'write the name of a GPU or its capability, such as "RTX 5090" or "12.0"',
    SIZE_PATTERN: 'write auto, or a whole number with M, G or T, such as "20G"',
    LOCAL_VERSION_PATTERN: "write auto, none, or lower-case letters and digits with dots between",
    REMOTE_PATTERN: "write redis://host:6379, rediss://…, http://host/path, https://… or s3://bucket/prefix",
    LOCAL_PART_PATTERN: 'write what stands behind the + of a version: "cu132.sm120.g1a2b3c4"',
    HOST_PATTERN: 'write a name or an address with the jobs it takes: "10.0.0.5/8", "builder:3632/16,lzo", '
    'or "me@builder/8" for ssh',
    SDIST_PATTERN: 'write name and exact version, such as "torch-cluster==1.6.3": what a bare name gives '
    "can change",
    REQUIREMENT_PATTERN: 'write a package and, where it matters, a range: "setuptools>=77,<82"',
}
