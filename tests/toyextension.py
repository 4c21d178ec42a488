"""A C extension of a few lines, which can be told to be slow or broken by files in its folder."""

from __future__ import annotations

from pathlib import Path

_SETUP = """
import pathlib, time
from setuptools import Extension, setup
here = pathlib.Path({folder!r})
if (here / "slow").exists():
    (here / "reached").touch()
    time.sleep(300)
setup(name="toyext", version="1.0", packages=["toyext"],
      ext_modules=[Extension("toyext._C", ["toyext/toy.c"])])
"""
_SOURCE = """
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *args) { return PyLong_FromLong(ANSWER); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {0, 0, 0, 0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", "", -1, methods};
PyMODINIT_FUNC PyInit__C(void) { return PyModule_Create(&module); }
"""


def make_extension(folder: Path, answer: str = "42", switches: Path | None = None) -> Path:
    """Write it. `answer` is the C expression that it returns; a broken one breaks the compile.

    The files `slow` and `reached` are looked for in `switches`, so that they are no source.
    """
    (folder / "toyext").mkdir(parents=True, exist_ok=True)
    text = _SETUP.format(folder=str(switches or folder))
    (folder / "setup.py").write_text(text, encoding="utf-8")
    (folder / "toyext" / "__init__.py").write_text("from toyext._C import answer\n", "utf-8")
    source = f"#define ANSWER {answer}\n{_SOURCE}"
    (folder / "toyext" / "toy.c").write_text(source, encoding="utf-8")
    return folder
