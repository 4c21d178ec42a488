"""What the tables say of archs, asked of those who read them: the extension builder and the CMake
of torch, nvcc and ptxas. It needs no card.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path, PurePosixPath

import pytest

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.arch_lists import (
    format_torch_archs,
    is_cmake_arch_supported,
    is_extension_arch_supported,
    parse_torch_archs,
)
from tasks.knowledge.cuda_toolkits import find_toolkit
from tasks.knowledge.machine_code_rules import (
    MachineCode,
    classify_compatibility,
)
from tests.real.debian import Debian
from tests.support.checkout import KNOWLEDGE
from tests.support.yard import Yard

pytestmark = pytest.mark.real

MADE = sorted({arch for kit in KNOWLEDGE.toolkits.values() for arch in kit.makes})
REFUSED = ("9.0;", ";9.0", "9.0;;12.0", "9.0; 12.0", "120", "sm_120", "8.9,12.0", "9.0+PTX+PTX")
CMAKE_REFUSED = ("120", "sm_120", "native", "9.0,12.0", "9.0+PTX+PTX", "9.0b")
SELECT = "Modules_CUDA_fix/upstream/FindCUDA/select_compute_arch.cmake"
# One torch, one import: each line of the list is asked for in turn.
ASK = """
import json, os, sys
{builder}
said = {{}}
for text in json.load(sys.stdin):
    os.environ["TORCH_CUDA_ARCH_LIST"] = text
    try:
        said[text] = _get_cuda_arch_flags()
    except (ValueError, IndexError) as error:
        said[text] = str(error)
print(json.dumps([said, _get_cuda_arch_flags(["-I/x/search"])]))
"""
IMPORTED = "from torch.utils.cpp_extension import _get_cuda_arch_flags"


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """The torch and the toolkit of quickstart, which the index is asked for once in a run."""
    made = Yard(tmp_path_factory.mktemp("real") / "checkout")
    made.profile(target={"gpus": ["RTX 5090"]})
    made.must("build")
    yield made
    shutil.rmtree(made.folder)


@pytest.fixture(scope="module")
def tree(debian: Debian) -> Path:
    """PyTorch's own tree, of an older release."""
    return debian.outside(PurePosixPath("/src/pytorch"))


def release_of(tree: Path) -> str:
    return (tree / "version.txt").read_text(encoding="utf-8").strip()


def flags(code: MachineCode) -> set[str]:
    real = {f"arch=compute_{digits(arch)},code=sm_{digits(arch)}" for arch in code.cubins}
    return real | {f"arch=compute_{digits(a)},code=compute_{digits(a)}" for a in code.ptx}


def digits(arch: Arch) -> str:
    return arch.sm.removeprefix("sm_")


def groups(archs: list[Arch]) -> Iterator[tuple[Arch, ...]]:
    """Each alone, each with each other, and all at once."""
    yield from ((arch,) for arch in archs)
    yield from combinations(archs, 2)
    yield tuple(archs)


def lists(write: partial[str], archs: list[Arch]) -> list[str]:
    """Every group, without PTX and with it where one of them has no suffix."""
    written = [write(group) for group in groups(archs)]
    with_ptx = [group for group in groups(archs) if any(not arch.suffix for arch in group)]
    return [*written, *(write(group, ptx=True) for group in with_ptx)]


def builder_says(
    python: str, builder: str, texts: Iterable[str]
) -> tuple[dict[str, list[str] | str], list[str]]:
    done = subprocess.run(
        [python, "-c", ASK.format(builder=builder)],
        input=json.dumps(list(texts)),
        capture_output=True,
        text=True,
        check=True,
    )
    said, with_flag = json.loads(done.stdout.splitlines()[-1])
    return said, with_flag


def judge_builder(release: str, python: str, builder: str) -> None:
    accepted = [arch for arch in MADE if is_extension_arch_supported(KNOWLEDGE, release, arch)]
    left = [str(arch) for arch in MADE if arch not in accepted]
    valid = lists(partial(format_torch_archs, KNOWLEDGE, release), accepted)
    said, with_flag = builder_says(python, builder, [*valid, *left, *REFUSED])
    for text in valid:
        expected = flags(parse_torch_archs(KNOWLEDGE, release, text))
        assert {flag.removeprefix("-gencode=") for flag in said[text]} == expected, text
    for text in (*left, *REFUSED):
        assert "Unknown CUDA arch" in said[text], text
        with pytest.raises(KnowledgeError):
            parse_torch_archs(KNOWLEDGE, release, text)
    assert with_flag == []  # any flag with "arch" in it, and the list does not count


def test_the_extension_builder_takes_what_the_table_says(yard: Yard) -> None:
    judge_builder(yard.manifest("wheel")["release"], yard.manifest("deps")["python"], IMPORTED)


def test_the_extension_builder_of_an_older_tree_does_too(tree: Path) -> None:
    """Its function alone: a tree that is not built has no torch to import."""
    source = (tree / "torch/utils/cpp_extension.py").read_text(encoding="utf-8")
    named = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    function = next(node for node in named if node.name == "_get_cuda_arch_flags")
    builder = "import collections, re\nfrom typing import *\n" + ast.unparse(function)
    judge_builder(release_of(tree), shutil.which("python3") or "python3", builder)


def judge_cmake(release: str, cmake: str, select: Path, at: Path) -> None:
    accepted = [arch for arch in MADE if is_cmake_arch_supported(KNOWLEDGE, release, arch)]
    left = [str(arch) for arch in MADE if arch not in accepted]
    valid = lists(partial(format_torch_archs, KNOWLEDGE, release, cmake=True), accepted)
    code, lines = cmake_says(cmake, select, valid, at)
    assert code == 0, "\n".join(lines)
    for text, line in zip(valid, lines, strict=True):
        expected = flags(parse_torch_archs(KNOWLEDGE, release, text, cmake=True))
        assert set(line.split(";")) - {"-gencode"} == expected, text
    for text in (*left, *CMAKE_REFUSED):
        assert cmake_says(cmake, select, [text], at)[0] != 0, text
        with pytest.raises(KnowledgeError):
            parse_torch_archs(KNOWLEDGE, release, text, cmake=True)


def cmake_says(cmake: str, select: Path, texts: list[str], at: Path) -> tuple[int, list[str]]:
    script = ["set(CUDA_VERSION 13.0)", f'include("{select}")']
    for text in texts:
        script += [f'set(asked "{text}")', "cuda_select_nvcc_arch_flags(made ${asked})"]
        script += ['message("= ${made}")']
    at.write_text("\n".join(script), encoding="utf-8")
    done = subprocess.run([cmake, "-P", at], capture_output=True, text=True, check=False)
    said = done.stderr.splitlines()
    return done.returncode, [line[2:] for line in said if line.startswith("= ")]


def test_torchs_cmake_takes_what_the_table_says(yard: Yard, tmp_path: Path) -> None:
    wheel, cmake = yard.manifest("wheel"), yard.manifest("deps")["cmake"]["path"]
    select = Path(wheel["folder"]) / "share/cmake/Caffe2" / SELECT
    judge_cmake(wheel["release"], cmake, select, tmp_path / "ask.cmake")


def test_the_cmake_of_an_older_tree_does_too(tree: Path, tmp_path: Path) -> None:
    cmake = shutil.which("cmake")
    if not cmake:
        pytest.skip("no cmake here")
    judge_cmake(release_of(tree), cmake, tree / "cmake" / SELECT, tmp_path / "ask.cmake")


def homes(yard: Yard) -> list[Path]:
    """The toolkit of Python packages, and the system's where there is one."""
    system = shutil.which("nvcc")
    own = Path(yard.manifest("deps")["toolkit"]["home"])
    return [own, *([Path(system).resolve().parents[1]] if system else [])]


def out(*argv: str | Path) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def cuda_of(home: Path) -> str:
    return out(home / "bin" / "nvcc", "--version").partition("release ")[2].partition(",")[0]


def test_nvcc_makes_what_the_table_says_and_refuses_the_rest(yard: Yard, tmp_path: Path) -> None:
    source = tmp_path / "empty.cu"
    source.write_text("__global__ void empty() {}\n", encoding="utf-8")
    for home in homes(yard):
        nvcc, cuda = home / "bin" / "nvcc", cuda_of(home)
        makes = find_toolkit(KNOWLEDGE, cuda).makes
        listed = {Arch.parse_capability(name) for name in out(nvcc, "--list-gpu-code").split()}
        assert listed == {arch for arch in makes if not arch.suffix}, cuda
        compiling = (nvcc, "-cubin", source, "-o", tmp_path / "empty.cubin")
        for arch in makes - listed:
            out(*compiling, f"-arch={arch.sm}")
        for arch in sorted(set(MADE) - makes):
            asked = (*compiling, f"-arch={arch.sm}")
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            assert done.returncode, f"{cuda} {arch}"


def test_ptxas_finishes_the_ptx_that_the_rules_say_a_card_runs(yard: Yard, tmp_path: Path) -> None:
    for home in homes(yard):
        kit = find_toolkit(KNOWLEDGE, cuda_of(home))
        for ptx in sorted(kit.makes):
            made = tmp_path / f"{ptx.sm}.ptx"
            made.write_text(
                f".version {kit.ptx_isa}\n.target {ptx.sm}\n.address_size 64\n"
                ".visible .entry empty() { ret; }\n",
                encoding="utf-8",
            )
            for card in sorted(arch for arch in kit.makes if not arch.suffix):
                own = Arch(card.major, card.minor, "a")  # the driver compiles for the card itself
                ways = [arch for arch in (card, own) if arch in kit.makes]
                runs = any(assembles(home, made, arch) for arch in ways)
                code = MachineCode(ptx=frozenset([ptx]))
                assert bool(classify_compatibility(KNOWLEDGE, code, card)) is runs, (
                    f"{kit.cuda}: {ptx} on {card}"
                )


def assembles(home: Path, ptx: Path, arch: Arch) -> bool:
    asked = (home / "bin" / "ptxas", f"-arch={arch.sm}", ptx, "-o", ptx.with_suffix(".cubin"))
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0
