"""For docs/settings.md: a value of each key, and which stages run again when it is changed.

The stages are those whose inputs the change moves, in a source build or in one of an official
wheel; a test holds that to the plan. What follows them runs where what they leave is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_DIGEST = "0" * 64


@dataclass(frozen=True)
class Example:
    """A `value` to copy, and the `stages` that it has run again; `beside` are other keys of its
    section without which it is refused.
    """

    value: Any
    stages: tuple[str, ...] = ()
    beside: Mapping[str, Any] = field(default_factory=dict)


EXAMPLES: Mapping[str, Example] = {
    "python": Example("3.12", ("deps",)),
    "target.gpus": Example(
        ["RTX 5060 Ti", "8.9"], ("env", "compile", "wheel", "extensions", "validate")
    ),
    "target.ptx": Example(True, ("env",)),
    "toolkit.provider": Example("system", ("deps",)),
    "toolkit.version": Example("13.0", ("deps", "env", "wheel", "extensions")),
    "toolkit.path": Example("/usr/local/cuda-13.2", ("deps",)),
    "torch.strategy": Example("source", ("deps", "source", "env", "compile", "wheel")),
    "torch.version": Example("2.14.1", ("deps", "source", "env", "wheel", "extensions")),
    "torch.index": Example("https://download.pytorch.org/whl/cu128", ("wheel",)),
    "torch.local": Example("cu132.sm120.g1a2b3c4", ("wheel",)),
    "torch.sha256": Example(_DIGEST, ("wheel",)),
    "source.git": Example("https://example.org/pytorch.git", ("source",)),
    "source.ref": Example("main", ("source",)),
    "source.submodules": Example(False, ("source",)),
    "source.path": Example("~/src/pytorch", ("source",)),
    "source.tarball": Example("~/Downloads/pytorch-2.15.0.tar.gz", ("source",)),
    "source.sha256": Example(_DIGEST, ("source",)),
    "source.patches": Example(["patches/mine.patch"], ("source",)),
    "source.mirrors": Example({"https://github.com/": "https://mirror.example/"}),
    "build.type": Example("RelWithDebInfo", ("env", "compile", "wheel")),
    "build.flags": Example({"USE_NCCL": False, "BUILD_TEST": False}, ("env", "compile")),
    "build.env": Example({"CC": "gcc-13", "CXX": "g++-13"}, ("deps", "env", "compile")),
    "build.jobs": Example(8),
    "build.jobs_exact": Example(True),
    "build.cache": Example("ccache", ("deps", "env")),
    "build.cache_size": Example("50G", ("env",)),
    "build.cache_remote": Example("redis://cache.lab:6379"),
    "build.distribute": Example("distcc", ("env",), {"hosts": ["10.0.0.5/8"]}),
    "build.hosts": Example(["10.0.0.5/8", "builder:3632/16,lzo"]),
    "build.target": Example("c10", ("compile",)),
    "build.backend": Example("cmake", ("compile",)),
    "build.heal": Example(True),
    "build.blas": Example("mkl", ("deps", "env")),
    "runtime.env": Example({"DEVICE": "auto"}, ("env",)),
    "runtime.launch_blocking": Example(True, ("env",)),
    "wheel.local_version": Example("lab.1", ("wheel",)),
    "wheel.cuda": Example("packages", ("deps", "wheel")),
    "wheel.wheelhouse": Example("~/wheels", ("wheel",)),
    "install.into": Example("~/miniconda3/envs/gs/bin/python", ("install",)),
    "install.partial": Example(True, ("install",)),
    "companions": Example(["torchvision"], ("extensions",)),
    "extensions": Example(["simple-knn"], ("extensions",)),
    "publish.dest": Example("me@wheels.lab:/srv/simple"),
    "publish.keep": Example(2),
    "matrix.torch": Example(["2.15.0", "2.14.1"]),
    "matrix.python": Example(["3.12", "3.13"]),
    "matrix.cuda": Example(["13.2", "auto"]),
    "matrix.gpus": Example(["RTX 5090", ["8.9", "9.0"], []]),
    "matrix.exclude": Example([{"torch": "2.14.1", "python": "3.13"}]),
    "matrix.include": Example([{"torch": "2.9.0", "gpus": "12.0"}]),
    "validation.only": Example(["import", "machine_code"], ("validate",)),
    "validation.timeout": Example(120),
    "doctor.ignore": Example(["disk"]),
    "notify.bell": Example(False),
    "notify.command": Example(["notify-send", "torchyard", "see the terminal"]),
    "mirrors": Example(["sjtu"]),
    "lock": Example(False),
    "offline": Example("/media/usb/torch.tar"),
}

_OWN = ("extensions",)
# The keys of one extension, beside its name and, where none is given, path: ~/code/mine
OF_EXTENSION: Mapping[str, Example] = {
    "name": Example("mine", _OWN),
    "git": Example("https://example.org/mine.git", _OWN),
    "ref": Example("v1.2", _OWN),
    "submodules": Example(False, _OWN),
    "path": Example("~/code/my-extension", _OWN),
    "sdist": Example("torch-cluster==1.6.3", _OWN),
    "sha256": Example(_DIGEST, _OWN),
    "subdirectory": Example("python", _OWN),
    "patches": Example(["mine.patch"], _OWN),
    "requires": Example(["psutil", "setuptools<82"], _OWN),
    "after": Example(["simple-knn"], _OWN),
    "imports": Example(["my_extension"], _OWN),
    "env": Example({"MAX_JOBS": "4"}, _OWN),
    "cuda": Example("required", _OWN),
    "includes": Example(["cfloat"], _OWN),
    "smoke": Example({"script": "check.py", "gpu": True}),
    "optional": Example(True),
}
