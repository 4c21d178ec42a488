"""Read from a Python traceback which installed package, or which file of the project, failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tasks.diagnosis.log_lines import LogLine

_MAX_LINES = 80  # lines of a traceback above its message
_FRAME = re.compile(  # as Python and as IPython print it
    r'File "(?P<file>[^"]+)", line \d+(?:, in (?P<function>\S+))?'
    r"|^(?:File )?(?P<file2>(?:[~/]|[A-Za-z]:[\\/])\S+\.py)(?::\d+)?,? in (?P<function2>\w+)"
)
_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\](?P<name>[A-Za-z]\w*)")
_PYTHON = re.compile(  # files of Python itself, and of build tools
    r"^<|[/\\][Pp]ython[\d.]*[/\\](?:lib[/\\])?(?!site-|dist-)\w|[/\\][Ll]ib[/\\](?!site-packages)\w+\.py"
    r"|[/\\]envs[/\\][^/\\]+[/\\]lib[/\\](?!python|site-)|^\w+\.py$|pip-(?:build-env|install|req-build)|builds-v\d"
)
_PASSED_ON = re.compile(  # functions that only pass a call or a look-up on
    r"__getattr\w*__|_(?:wrapped_)?call_impl|decorate_context|_?wrap(?:per|ped)?\w*|inner\w*|_get_module"
)
_DISTRIBUTIONS = {  # names for pip that are not those of the module
    "attr": "attrs",
    "cv2": "opencv-python",
    "Crypto": "pycryptodome",
    "faiss": "faiss-cpu",
    "git": "gitpython",
    "google": "protobuf",
    "hydra": "hydra-core",
    "mpl_toolkits": "matplotlib",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "pkg_resources": "setuptools",
    "pl_bolts": "lightning-bolts",
    "pyannote": "pyannote.audio",
    "ruamel": "ruamel.yaml",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
_NOT_ON_PYPI = frozenset(  # or another project has the name there
    [
        "apex",
        "clip",
        "detectron2",
        "diff_gaussian_rasterization",
        "groundingdino",
        "ldm",
        "nvdiffrast",
        "pytorch3d",
        "sam2",
        "segment_anything",
        "simple_knn",
        "tinycudann",
    ]
)


def read_traceback_words(lines: Sequence[LogLine], at: int, module: str = "") -> dict[str, str]:
    """Return {importer}, the package whose code failed at line `at`, or {own_file}, a file.

    `importer` has the name for pip. Frames of Python itself, and of the package of `module`, which
    only reports what is missing, are left out. Empty if the log has no traceback there.
    """
    top = module.partition(".")[0].lower()
    for file, function in _read_frames(lines, at):
        if _PASSED_ON.fullmatch(function):
            continue
        if package := _PACKAGE.search(file):
            name = package["name"]
            if name in _NOT_ON_PYPI:
                return {}
            if name.lower() != top:
                return {"importer": _DISTRIBUTIONS.get(name, name)}
        elif not _PYTHON.search(file):
            return {"own_file": file}
    return {}


def _read_frames(lines: Sequence[LogLine], at: int) -> Iterator[tuple[str, str]]:
    """Yield the file and function of each frame above line `at`, the last one first."""
    for line in reversed(lines[max(0, at - _MAX_LINES) : at + 1]):
        if frame := _FRAME.search(line.text):
            yield frame["file"] or frame["file2"], frame["function"] or frame["function2"] or ""
        elif "Traceback (most recent call last)" in line.text:
            return
