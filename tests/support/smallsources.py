"""A library more for the toy tree: many small C sources, so that there is much to make in no time.

They share a header, whose value can be changed, and a switch, USE_MANY.
"""

from __future__ import annotations

from pathlib import Path

_CMAKE = """
enable_language(C)
option(USE_MANY "A switch of the library with many sources" OFF)
file(GLOB MANY many/*.c)
add_library(many ${MANY})
if(USE_MANY)
  target_compile_definitions(many PRIVATE USE_MANY)
endif()
install(TARGETS many LIBRARY DESTINATION lib ARCHIVE DESTINATION lib RUNTIME DESTINATION lib)
"""
_SOURCE = """
#include "value.h"

int many_{number}(void) {{
#ifdef USE_MANY
  return -VALUE * {number};
#else
  return VALUE * {number};
#endif
}}
"""


def add_small_sources(tree: Path, count: int = 12) -> None:
    """Write them into a toy tree, as the library `many`."""
    folder = tree / "many"
    folder.mkdir()
    for number in range(count):
        text = _SOURCE.format(number=number).lstrip()
        (folder / f"part{number}.c").write_text(text, encoding="utf-8")
    with (tree / "CMakeLists.txt").open("a", encoding="utf-8") as cmake:
        cmake.write(_CMAKE)
    set_value(tree, 1)


def set_value(tree: Path, value: int) -> None:
    """What the sources are compiled with: every one of them is old after a change."""
    (tree / "many" / "value.h").write_text(f"#define VALUE {value}\n", encoding="utf-8")
