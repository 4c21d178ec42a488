"""The forms that texts in the settings must have: each a pattern, and what it says in words."""

from __future__ import annotations

SHA256 = r"^[0-9a-f]{64}$"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
MODULE = r"^[A-Za-z_][\w.]*$"
SWITCH = r"^(USE|BUILD)_[A-Z0-9_]+$"
VARIABLE = r"^[A-Za-z_]\w*$"
HEADER = r"^[\w./+-]+$"
RELEASE = r"^\d+\.\d+\.\d+[a-z0-9.]*$"
CUDA = r"^(auto|\d+\.\d+)$"
PYTHON = r"^\d+\.\d+(\.\d+)?$"
GPU = r"^[A-Za-z0-9][A-Za-z0-9 ._/()-]*$"
LOCAL_VERSION = r"^(auto|none|[a-z0-9]+(\.[a-z0-9]+)*)$"
LOCAL_PART = r"^[a-z0-9]+(\.[a-z0-9]+)*$"
SIZE = r"^(auto|[1-9]\d*[MGT])$"
REMOTE = (  # behind the |: what ccache calls attributes
    r"^(rediss?|https?|s3)://([^\s\x00-\x1f/]+@)?(\[[\da-fA-F:.]+\]|[^\s\x00-\x1f/@:|\[\]]+)(:\d{1,5})?"
    r"(/[^\s|]*)?(\|\S+)?$"
)
HOST = r"^([A-Za-z_][\w.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,5})?(/[1-9]\d{0,2})?(,lzo)?$"
SDIST = r"^[A-Za-z0-9][\w.-]*==[\w.+!-]+$"
REQUIREMENT = (
    r"^[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?(\s*(==|!=|~=|<=|>=|<|>)\s*[\w.*+!-]+"
    r"(\s*,\s*(==|!=|~=|<=|>=|<|>)\s*[\w.*+!-]+)*)?$"
)

WORDS = {
    SHA256: "write the 64 hexadecimal digits of the file's sha256, in lower case",
    NAME: 'write letters, digits, ".", "_" and "-"',
    MODULE: 'write a module as Python imports it, such as "simple_knn._C"',
    SWITCH: "write USE_NAME or BUILD_NAME, in capitals; other variables go into build.env",
    VARIABLE: "write the name of a variable: letters, digits and _",
    HEADER: 'write a header as it is included, such as "cfloat"',
    RELEASE: 'write a whole release without a local part, such as "2.15.0"',
    CUDA: 'write auto, or major and minor, such as "13.2"',
    PYTHON: 'write a version, such as "3.12"',
    GPU: 'write the name of a GPU or its capability, such as "RTX 5090" or "12.0"',
    SIZE: 'write auto, or a whole number with M, G or T, such as "20G"',
    LOCAL_VERSION: "write auto, none, or lower-case letters and digits with dots between",
    REMOTE: "write redis://host:6379, rediss://…, http://host/path, https://… or s3://bucket/prefix",
    LOCAL_PART: 'write what stands behind the + of a version: "cu132.sm120.g1a2b3c4"',
    HOST: 'write a name or an address with the jobs it takes: "10.0.0.5/8", "builder:3632/16,lzo", '
    'or "me@builder/8" for ssh',
    SDIST: 'write name and exact version, such as "torch-cluster==1.6.3": what a bare name gives '
    "can change",
    REQUIREMENT: 'write a package and, where it matters, a range: "setuptools>=77,<82"',
}
