"""For docs/settings.md: a value of each key, and which stages run again when it is changed.

The stages are those whose inputs the change moves, in a source build or in one of an official
wheel; a test holds that to the plan. What follows them runs where what they leave is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_EXAMPLE_SHA256 = "0" * 64


@dataclass(frozen=True)
class SettingExample:
    """A `value` to copy, and the `stages` that it has run again; `beside` are other keys of its
    section without which it is refused.
    """

    value: Any
    stages: tuple[str, ...] = ()
    required_keys: Mapping[str, Any] = field(default_factory=dict)


SETTING_EXAMPLES: Mapping[str, SettingExample] = {
    "python": SettingExample("3.12", ("deps",)),
    "target.gpus": SettingExample(
        ["RTX 5060 Ti", "8.9"], ("env", "compile", "wheel", "extensions", "validate")
    ),
    "target.ptx": SettingExample(True, ("env",)),
    "toolkit.provider": SettingExample("system", ("deps",)),
    "toolkit.version": SettingExample("13.0", ("deps", "env", "wheel", "extensions")),
    "toolkit.path": SettingExample("/usr/local/cuda-13.2", ("deps",)),
    "torch.strategy": SettingExample("source", ("deps", "source", "env", "compile", "wheel")),
    "torch.version": SettingExample("2.14.1", ("deps", "source", "env", "wheel", "extensions")),
    "torch.index": SettingExample("https://download.pytorch.org/whl/cu128", ("wheel",)),
    "torch.local": SettingExample("cu132.sm120.g1a2b3c4", ("wheel",)),
    "torch.sha256": SettingExample(_EXAMPLE_SHA256, ("wheel",)),
    "source.git": SettingExample("https://example.org/pytorch.git", ("source",)),
    "source.ref": SettingExample("main", ("source",)),
    "source.submodules": SettingExample(False, ("source",)),
    "source.path": SettingExample("~/src/pytorch", ("source",)),
    "source.tarball": SettingExample("~/Downloads/pytorch-2.15.0.tar.gz", ("source",)),
    "source.sha256": SettingExample(_EXAMPLE_SHA256, ("source",)),
    "source.patches": SettingExample(["patches/mine.patch"], ("source",)),
    "source.mirrors": SettingExample({"https://github.com/": "https://mirror.example/"}),
    "build.type": SettingExample("RelWithDebInfo", ("env", "compile", "wheel")),
    "build.flags": SettingExample({"USE_NCCL": False, "BUILD_TEST": False}, ("env", "compile")),
    "build.env": SettingExample({"CC": "gcc-13", "CXX": "g++-13"}, ("deps", "env", "compile")),
    "build.jobs": SettingExample(8),
    "build.jobs_exact": SettingExample(True),
    "build.cache": SettingExample("ccache", ("deps", "env")),
    "build.cache_size": SettingExample("50G", ("env",)),
    "build.cache_remote": SettingExample("redis://cache.lab:6379"),
    "build.distribute": SettingExample("distcc", ("env",), {"hosts": ["10.0.0.5/8"]}),
    "build.hosts": SettingExample(["10.0.0.5/8", "builder:3632/16,lzo"]),
    "build.target": SettingExample("c10", ("compile",)),
    "build.backend": SettingExample("cmake", ("compile",)),
    "build.heal": SettingExample(True),
    "build.blas": SettingExample("mkl", ("deps", "env")),
    "runtime.env": SettingExample({"DEVICE": "auto"}, ("env",)),
    "runtime.launch_blocking": SettingExample(True, ("env",)),
    "wheel.local_version": SettingExample("lab.1", ("wheel",)),
    "wheel.cuda": SettingExample("packages", ("deps", "wheel")),
    "wheel.wheelhouse": SettingExample("~/wheels", ("wheel",)),
    "install.into": SettingExample("~/miniconda3/envs/gs/bin/python", ("install",)),
    "install.partial": SettingExample(True, ("install",)),
    "companions": SettingExample(["torchvision"], ("extensions",)),
    "extensions": SettingExample(["simple-knn"], ("extensions",)),
    "publish.dest": SettingExample("me@wheels.lab:/srv/simple"),
    "publish.keep": SettingExample(2),
    "matrix.torch": SettingExample(["2.15.0", "2.14.1"]),
    "matrix.python": SettingExample(["3.12", "3.13"]),
    "matrix.cuda": SettingExample(["13.2", "auto"]),
    "matrix.gpus": SettingExample(["RTX 5090", ["8.9", "9.0"], []]),
    "matrix.exclude": SettingExample([{"torch": "2.14.1", "python": "3.13"}]),
    "matrix.include": SettingExample([{"torch": "2.9.0", "gpus": "12.0"}]),
    "validation.only": SettingExample(["import", "machine_code"], ("validate",)),
    "validation.timeout": SettingExample(120),
    "doctor.ignore": SettingExample(["disk"]),
    "notify.bell": SettingExample(False),
    "notify.command": SettingExample(["notify-send", "torchyard", "see the terminal"]),
    "mirrors": SettingExample(["sjtu"]),
    "lock": SettingExample(False),
    "offline": SettingExample("/media/usb/torch.tar"),
}

_EXTENSION_STAGES = ("extensions",)
# The keys of one extension, beside its name and, where none is given, path: ~/code/mine
EXTENSION_EXAMPLES: Mapping[str, SettingExample] = {
    "name": SettingExample("mine", _EXTENSION_STAGES),
    "git": SettingExample("https://example.org/mine.git", _EXTENSION_STAGES),
    "ref": SettingExample("v1.2", _EXTENSION_STAGES),
    "submodules": SettingExample(False, _EXTENSION_STAGES),
    "path": SettingExample("~/code/my-extension", _EXTENSION_STAGES),
    "sdist": SettingExample("torch-cluster==1.6.3", _EXTENSION_STAGES),
    "sha256": SettingExample(_EXAMPLE_SHA256, _EXTENSION_STAGES),
    "subdirectory": SettingExample("python", _EXTENSION_STAGES),
    "patches": SettingExample(["mine.patch"], _EXTENSION_STAGES),
    "requires": SettingExample(["psutil", "setuptools<82"], _EXTENSION_STAGES),
    "after": SettingExample(["simple-knn"], _EXTENSION_STAGES),
    "imports": SettingExample(["my_extension"], _EXTENSION_STAGES),
    "env": SettingExample({"MAX_JOBS": "4"}, _EXTENSION_STAGES),
    "cuda": SettingExample("required", _EXTENSION_STAGES),
    "includes": SettingExample(["cfloat"], _EXTENSION_STAGES),
    "smoke": SettingExample({"script": "check.py", "gpu": True}),
    "optional": SettingExample(True),
}
