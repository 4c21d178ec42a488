from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tasks.knowledge.toolkit_facts import (
    REFUSED_PTX,
    TOOLKIT_MEMBERS,
    build_toolkit_row,
    parse_gpu_code_list,
    parse_host_config,
    parse_nvcc_help,
    parse_ptx_isa,
    parse_ptxas_help,
)
from tests.support.rows import each_row

HOST_CONFIG = """\
/* check for host compilers that are compatible with nvcc */
#if !defined(__GNUC__) && !defined(_WIN32)

#error --- !!! UNSUPPORTED COMPILER !!! ---

#endif /* !__GNUC__ && !_WIN32 */

#if defined(__GRCO_CLANG_COMPILER__)
#if (__GRCO_CLANG_COMPILER__ == 1) && ((__clang_major__ < 16) || (__clang_major__ > 20))
#error -- unsupported Grace clang version! The version must be 16.x to 20.x.
#endif
#endif /* __GRCO_CLANG_COMPILER__  */

#if defined(__GNUC__)

#if __GNUC__ > 16

#error -- unsupported GNU version! gcc versions later than 16 are not supported!

#endif /* __GNUC__ > 16 */

#if defined(__HORIZON__)
#if (__clang_major__ >= 22) || (__clang_major__ < 3) || \\
    ((__clang_major__ == 3) &&  (__clang_minor__ < 3))
#error -- unsupported HOS clang version! The version must be must be less than 22.
#endif
#endif /* __HORIZON__  */

#if defined(__clang__) && !defined(__HORIZON__) && !defined(__GRCO_CLANG_COMPILER__)

#if (__clang_major__ >= 23) || (__clang_major__ < 3) || \\
    ((__clang_major__ == 3) &&  (__clang_minor__ < 3))  /* below 3.3 */
#error -- unsupported clang version! clang version must be less than 99 and greater than 3.2 .
#endif

#endif /* __clang__ */
#endif /* __GNUC__ */

#if defined(_WIN32)

#if _MSC_VER < 1920 || _MSC_VER >= 1960

#error -- unsupported Microsoft Visual Studio version!

#elif _MSC_VER >= 1910 && _MSC_VER < 1910

#pragma message("support for this version of Microsoft Visual Studio has been deprecated!")

#endif

#endif /* _WIN32 */

#if _MSC_VER >= 1500
#undef _USE_DECLSPECS_FOR_SAL
#endif
"""
LIMITS = {"gcc_max": 16, "clang_max": 22, "msvc": {"min": 1920, "below": 1960}}
PTXAS_HELP = """\
--gpu-name <gpu name>                               (-arch)
        Specify name of NVIDIA GPU to generate code for. PTX for .target sm_XY can be compiled
        to all GPU targets sm_MN, sm_MNa, SM_MNf where MN >= XY.
        Allowed values for this option:  'compute_103f','compute_75','lto_75','sm_100',
        'sm_100a','sm_100f','sm_103','sm_103a','sm_103f','sm_120','sm_120a','sm_120f',
        'sm_75','sm_90','sm_90a'.
        Default value:  'sm_75'.

--version                                           (-V)
        Print version information on this tool.
"""
OLD_PTXAS_HELP = """\
        Allowed values for this option:  'compute_35','lto_35','sm_35','sm_86','sm_90'.
        Default value:  'sm_52'.
"""
ARCHS = {
    "sm": ["7.5", "9.0", "10.0", "10.3", "12.0"],
    "a": ["9.0", "10.0", "10.3", "12.0"],
    "f": ["10.0", "10.3", "12.0"],
}
GPU_CODE = "sm_75\nsm_90\nsm_100\nsm_120\nsm_103\n"
NVCC_HELP = """\
--x {c|c++|cu}                                      (-x)
        Allowed values for this option:  'c','c++','cu'.

--std {c++03|c++11|c++14|c++17|c++20|c++23}         (-std)
        Select a particular C++ dialect.
        Allowed values for this option:  'c++03','c++11','c++14','c++17','c++20',
        'c++23'.

--stdlib {libc++|libstdc++}                         (-stdlib)
"""
REFUSAL = """\
ptxas a.ptx, line 1; fatal   : Unsupported .version 99.9; current version is '9.5'
ptxas fatal   : Ptx assembly aborted due to errors
"""


def test_outputs_of_a_toolkit_give_its_row() -> None:
    row = build_toolkit_row(
        "13.5.37",
        host_config=HOST_CONFIG,
        ptxas_help=PTXAS_HELP,
        gpu_code=GPU_CODE,
        ptx_isa=REFUSAL,
        nvcc_help=NVCC_HELP,
    )
    assert row == {"nvcc": "13.5.37", **ARCHS, **LIMITS, "ptx_isa": "9.5", "cxx_max": 23}


def test_toolkit_without_nvcc_has_no_newest_standard() -> None:
    row = build_toolkit_row("12.8.93", ptxas_help=PTXAS_HELP, host_config=HOST_CONFIG)
    assert row == {"nvcc": "12.8.93", **ARCHS, **LIMITS}


def test_list_of_nvcc_replaces_a_missing_list_of_ptxas() -> None:
    row = build_toolkit_row("13.5.37", ptxas_help="no list", gpu_code=GPU_CODE)
    assert row == {"nvcc": "13.5.37", "sm": ARCHS["sm"]}


def test_row_has_only_what_was_read() -> None:
    assert build_toolkit_row("13.5.37") == {"nvcc": "13.5.37"}


@each_row("newline", ["\n", "\r\n"])
def test_host_compilers_are_read_from_the_guards(newline: str) -> None:
    assert parse_host_config(HOST_CONFIG.replace("\n", newline)) == LIMITS


@each_row(
    ("guard", "message", "limits"),
    [
        ("__GNUC__ > 11", "unsupported GNU version", {"gcc_max": 11}),
        ("__GNUC__ >= 12", "anything", {"gcc_max": 11}),
        ("(__clang_major__ > 21)", "unsupported clang version", {"clang_max": 21}),
        ("(__clang_major__ >= 21)", "unsupported HOS clang version", {}),
        ("(__clang_major__ < 3)", "unsupported clang version", {}),
        (
            "_MSC_VER < 1910 || _MSC_VER >= 1940",
            "unsupported",
            {"msvc": {"min": 1910, "below": 1940}},
        ),
        ("_MSC_VER < 1910", "unsupported", {}),
        ("defined(__ICC)", "ICC is not supported", {}),
        ("__GNUC__ > " + "9" * 5000, "unsupported GNU version", {}),
    ],
)
def test_guard_gives_the_newest_accepted_version(
    guard: str, message: str, limits: dict[str, Any]
) -> None:
    assert parse_host_config(f"#if {guard}\n\n#error -- {message}!\n#endif\n") == limits


def test_condition_without_an_error_is_no_limit() -> None:
    assert parse_host_config('#if __GNUC__ > 11\n#pragma message("old")\n#endif\n') == {}


@each_row(
    ("text", "archs"),
    [
        (PTXAS_HELP, ARCHS),
        (OLD_PTXAS_HELP, {"sm": ["3.5", "5.2", "8.6", "9.0"], "a": [], "f": []}),
        ("ptxas fatal   : Unknown option", {}),
        ("'sm_9999', 'sm_7', 'sm_90x', 'sm_'", {}),
        ("", {}),
    ],
)
def test_archs_of_ptxas_are_listed_by_suffix(text: str, archs: dict[str, list[str]]) -> None:
    assert parse_ptxas_help(text) == archs


@each_row(
    ("text", "archs"),
    [
        (GPU_CODE, ARCHS["sm"]),
        ("sm_90\r\nsm_90a\r\n", ["9.0", "9.0a"]),
        ("nvcc fatal   : Unknown option 'list-gpu-code' for sm_90", []),
        ("", []),
    ],
)
def test_archs_of_nvcc_are_listed_in_order(text: str, archs: list[str]) -> None:
    assert parse_gpu_code_list(text) == archs


@each_row(
    ("text", "isa"),
    [
        (REFUSAL, "9.5"),
        ("1.0\n7.8\n8.8\n9.10\n9.5\n", "9.10"),
        ("//\n// Based on NVVM 21.0.0\n//\n\n.version 9.4\n.target sm_75\n", "9.4"),
        ("ptxas fatal   : Unknown option '-list-version'", ""),
        ("Cuda compilation tools, release 13.5, V13.5.37", ""),
        ("", ""),
    ],
)
def test_ptx_isa_is_read_from_each_source(text: str, isa: str) -> None:
    assert parse_ptx_isa(text) == isa


@each_row(
    ("text", "row"),
    [
        (NVCC_HELP, {"cxx_max": 23}),
        ("--std {c++03|c++11|c++14|c++17|c++20}               (-std)", {"cxx_max": 20}),
        ("--std {}", {}),
        ("--stdlib {libc++|libstdc++}", {}),
        ("", {}),
    ],
)
def test_newest_standard_is_read_from_the_help_of_nvcc(text: str, row: dict[str, int]) -> None:
    assert parse_nvcc_help(text) == row


def test_refused_ptx_has_a_version_that_no_ptxas_knows() -> None:
    assert parse_ptx_isa(REFUSED_PTX) == "99.9"


@each_row(
    ("name", "is_read"),
    [
        ("nvidia/cuda_nvcc/bin/ptxas", True),  # 12.x
        ("nvidia/cuda_nvcc/include/crt/host_config.h", True),
        ("nvidia/cu13/bin/ptxas", True),  # 13.x
        ("nvidia/cu13/bin/nvcc", True),
        ("nvidia/cu13/include/crt/host_config.h", True),
        ("nvidia/cu13/bin/nvcc.profile", False),
        ("nvidia/cu13/bin/__nvcc_device_query", False),
        ("nvidia/cu13/include/crt/host_defines.h", False),
    ],
)
def test_members_of_both_wheel_layouts_are_read(name: str, is_read: bool) -> None:
    assert any(fnmatchcase(name, pattern) for pattern in TOOLKIT_MEMBERS) is is_read


@given(st.text(max_size=200))
def test_no_text_raises_an_error(text: str) -> None:
    row = build_toolkit_row(
        "1", host_config=text, ptxas_help=text, gpu_code=text, ptx_isa=text, nvcc_help=text
    )
    assert row["nvcc"] == "1"
