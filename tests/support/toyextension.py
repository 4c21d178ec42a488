"""A C extension of a few lines, which can be told to be slow or broken by files in its folder; and
one that is compiled by Ninja, as torch's cpp_extension does it.
"""

from __future__ import annotations

import json
from pathlib import Path

_SETUP = """
import pathlib, time
from setuptools import Extension, setup
here = pathlib.Path({folder!r})
if (here / "slow").exists():
    (here / "reached").touch()
    time.sleep(300)
setup(name="{name}", version="1.0", packages=["{name}"],
      ext_modules=[Extension("{name}._C", ["{name}/toy.c"])])
"""
# As torch.utils.cpp_extension: absolute objects, and a number only where MAX_JOBS is one
_NINJA = r"""
import json, os, pathlib, subprocess, sysconfig
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

RULE = "rule compile\n  command = $${CC:-cc} -fPIC -I%s -c $in -o $out\n"

def escaped(path):
    return path.replace(" ", "$ ")

class Compile(build_ext):
    def build_extension(self, ext):
        with open(SEEN, "a") as stream:
            stream.write(json.dumps(dict(os.environ)) + "\n")
        folder = pathlib.Path(self.build_temp).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        made = {str(folder / pathlib.Path(source).stem) + ".o": source for source in ext.sources}
        pairs = [(name, os.path.abspath(source)) for name, source in made.items()]
        lines = ["build %s: compile %s\n" % tuple(map(escaped, pair)) for pair in pairs]
        text = RULE % sysconfig.get_path("include") + "".join(lines)
        (folder / "build.ninja").write_text(text)
        jobs = os.environ.get("MAX_JOBS", "")
        number = ["-j", jobs] if jobs.isdigit() else []
        subprocess.run(["ninja", "-v", *number], cwd=folder, check=True)
        self.compiler.link_shared_object(list(made), self.get_ext_fullpath(ext.name))

sources = sorted(str(path) for path in pathlib.Path("toyext").glob("*.c"))
setup(name="toyext", version="1.0", packages=["toyext"], cmdclass={"build_ext": Compile},
      ext_modules=[Extension("toyext._C", sources)])
"""
_SOURCE = """
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *args) { return PyLong_FromLong(ANSWER); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {0, 0, 0, 0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", "", -1, methods};
PyMODINIT_FUNC PyInit__C(void) { return PyModule_Create(&module); }
"""


def make_extension(
    folder: Path, answer: str = "42", switches: Path | None = None, name: str = "toyext"
) -> Path:
    """Write it. `answer` is the C expression that it returns; a broken one breaks the compile.

    The files `slow` and `reached` are looked for in `switches`, so that they are no source.
    """
    (folder / name).mkdir(parents=True, exist_ok=True)
    text = _SETUP.format(folder=str(switches or folder), name=name)
    (folder / "setup.py").write_text(text, encoding="utf-8")
    (folder / name / "__init__.py").write_text(f"from {name}._C import answer\n", "utf-8")
    source = f"#define ANSWER {answer}\n{_SOURCE}"
    (folder / name / "toy.c").write_text(source, encoding="utf-8")
    return folder


def make_ninja_extension(folder: Path, parts: int = 3) -> Path:
    """Write one of so many sources, whose setup.py leaves word for `environments_of`."""
    make_extension(folder)
    text = _NINJA.replace("SEEN", repr(str(_seen(folder))))
    (folder / "setup.py").write_text(text, encoding="utf-8")
    for number in range(1, parts):
        text = f"int part_{number}(void) {{ return {number}; }}\n"
        (folder / "toyext" / f"part{number}.c").write_text(text, encoding="utf-8")
    return folder


def environments_of(folder: Path) -> list[dict[str, str]]:
    """What its compilers were started with, each time."""
    return [json.loads(line) for line in _seen(folder).read_text(encoding="utf-8").splitlines()]


def _seen(folder: Path) -> Path:
    """Beside it, so that it is no source."""
    return folder.with_suffix(".seen")
