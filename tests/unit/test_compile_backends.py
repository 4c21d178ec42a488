"""Exact commands of the build backends, and the settings that CMake would ignore."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from tasks.errors import BuildError
from tasks.stages.compile import cache
from tasks.stages.compile.backends import BACKENDS, detect
from tasks.stages.compile.forwarding import ALIASES, PASSTHROUGH
from tasks.stages.compile.job import BackendName
from tasks.stages.compile.work import Work

TREE, OURS = PurePosixPath("/tree"), PurePosixPath("/ours")
BUILD = ("/py", "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check", "--outdir")


def work(target: str | None = None, **variables: str) -> Work:
    tools = {"python": "/py", "cmake": "/cmake", "ninja": "/ninja"}
    return Work(
        tree=TREE, ours=OURS, type="Debug", variables=variables, target=target, jobs=3, **tools
    )


def argvs(backend: str, given: Work) -> list[tuple[str, ...]]:
    return [step.argv for step in BACKENDS[backend].compile_steps(given)]  # type: ignore[index]


def test_backend_is_told_by_the_trees_pyproject() -> None:
    assert detect("") == "setup_py"
    assert detect('build-backend = "setuptools.build_meta"') == "setup_py"
    assert detect('build-backend = "scikit_build_core.build"') == "scikit_build_core"


def test_setup_py_builds_everything_itself() -> None:
    (step,) = BACKENDS["setup_py"].compile_steps(work())
    assert step.argv == ("/py", "setup.py", "build")
    assert step.env == {"CMAKE_BUILD_TYPE": "Debug", "MAX_JOBS": "3"}


def test_setup_py_configures_and_cmake_builds_one_target() -> None:
    assert argvs("setup_py", work("c10")) == [
        ("/py", "setup.py", "build", "--cmake-only"),
        ("/cmake", "--build", "/tree/build", "--target", "c10"),
    ]


def test_setup_py_wheel_comes_out_of_the_trees_own_folder() -> None:
    backend = BACKENDS["setup_py"]
    assert backend.wheel_command(work()).argv == (*BUILD, "{dest}", ".")
    assert backend.folder(work()) == TREE / "build"


def test_scikit_compiles_and_makes_the_wheel_in_the_same_folder() -> None:
    config = ("-Cbuild-dir=/ours/cmake", "-Ccmake.build-type=Debug")
    unpacked = "-Cinstall.components=nothing"
    assert argvs("scikit_build_core", work()) == [(*BUILD, "/ours/scratch", *config, unpacked, ".")]
    wheel = BACKENDS["scikit_build_core"].wheel_command(work()).argv
    assert wheel == (*BUILD, "{dest}", *config, ".")


def test_scikit_builds_one_target_and_installs_nothing() -> None:
    (argv,) = argvs("scikit_build_core", work("c10"))
    assert argv[-3:] == ("-Cbuild.targets=c10", "-Cinstall.components=nothing", ".")


def test_cmake_alone_takes_the_switches_as_definitions() -> None:
    given = work(USE_MPI="0", BLAS="MKL", CC="gcc", CMAKE_GENERATOR="Ninja", BUILD_PYTHON="1")
    configure, build = argvs("cmake", given)
    assert configure[:7] == ("/cmake", "-S", "/tree", "-B", "/ours/cmake", "-G", "Ninja")
    assert [part for part in configure if part.startswith("-DB")] == [
        "-DBLAS=MKL",
        "-DBUILD_PYTHON=OFF",
        "-DBUILD_SHARED_LIBS=ON",
    ]
    assert {"-DUSE_MPI=0", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_MAKE_PROGRAM=/ninja"} < {*configure}
    assert not any("CC=" in part or "GENERATOR" in part for part in configure)
    assert build == ("/cmake", "--build", "/ours/cmake")


def test_cmake_alone_leaves_an_install_prefix() -> None:
    argv = BACKENDS["cmake"].wheel_command(work()).argv
    assert argv == ("/cmake", "--install", "/ours/cmake", "--prefix", "{dest}")


@pytest.mark.parametrize(
    ("backend", "ignored", "honoured"),
    [
        ("setup_py", ["USE_CUDA", "BLAS", "CFLAGS"], []),
        (
            "scikit_build_core",
            [*PASSTHROUGH, *ALIASES, "CFLAGS", "CC", "CMAKE_CXX_COMPILER", "CMAKE_GENERATOR"],
            ["USE_CUDA", "BUILD_TEST", "CMAKE_BUILD_TYPE", "HAVE_X_EXITCODE"],
        ),
        ("cmake", ["CFLAGS", *ALIASES], ["USE_CUDA", "BLAS", "TORCH_CUDA_ARCH_LIST"]),
    ],
)
def test_what_a_configured_folder_ignores(
    backend: str, ignored: list[str], honoured: list[str]
) -> None:
    rules = BACKENDS[backend]  # type: ignore[index]
    assert all(rules.ignores(name) for name in ignored)
    assert not any(rules.ignores(name) for name in honoured)


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    (tmp_path / "build.ninja").touch()
    (tmp_path / "CMakeCache.txt").write_text(
        "# comment\n//Help: a=b\nUSE_MPI:BOOL=ON\nUSE_NCCL:BOOL=OFF\n"
        "CMAKE_BUILD_TYPE:STRING=Release\n"
        '"quoted:name":INTERNAL=1\nBLAS:STRING=MKL\n',
        encoding="utf-8",
    )
    return tmp_path


def refuse(folder: Path, backend: BackendName = "setup_py", /, **wanted: str) -> None:
    cache.refuse_ignored(BACKENDS[backend], folder, wanted)


def test_cache_is_read_by_name(configured: Path) -> None:
    entries = cache.read_cache(configured)
    assert entries["USE_MPI"] == "ON"
    assert entries["BLAS"] == "MKL"


def test_same_switch_in_another_spelling_is_no_change(configured: Path) -> None:
    refuse(configured, USE_MPI="1", USE_NCCL="false", CMAKE_BUILD_TYPE="Release")


def test_changed_switch_is_refused_with_its_key_and_the_remedy(configured: Path) -> None:
    cache.remember(configured, {"USE_MPI": "1"})
    with pytest.raises(BuildError, match=r"build\.flags\.USE_MPI: configured with 1") as caught:
        refuse(configured, USE_MPI="0")
    assert f"shutil.rmtree(r'{configured}')" in caught.value.todo


def test_changed_build_type_of_a_folder_that_a_person_configured_is_refused(
    configured: Path,
) -> None:
    with pytest.raises(BuildError, match=r"build\.type: configured with Release, asked for Debug"):
        refuse(configured, CMAKE_BUILD_TYPE="Debug")


def test_switch_that_cmake_itself_turned_off_is_no_change(configured: Path) -> None:
    cache.remember(configured, {"USE_NCCL": "1"})
    refuse(configured, USE_NCCL="1")


def test_switch_that_is_not_asked_for_any_more_is_refused(configured: Path) -> None:
    cache.remember(configured, {"USE_MPI": "1"})
    with pytest.raises(BuildError, match="asked for nothing"):
        refuse(configured)


@pytest.mark.parametrize("backend", ["setup_py", "scikit_build_core", "cmake"])
def test_no_backend_takes_a_switch_back_that_is_not_asked_for_any_more(
    configured: Path, backend: BackendName
) -> None:
    cache.remember(configured, {"USE_MPI": "1", "USE_NCCL": "0"})
    with pytest.raises(BuildError, match=r"USE_MPI: configured with 1, asked for nothing"):
        refuse(configured, backend, USE_NCCL="0")


@pytest.mark.parametrize("backend", ["setup_py", "scikit_build_core", "cmake"])
@pytest.mark.parametrize("name", ["CFLAGS", "LDFLAGS", "TORCH_NVCC_FLAGS"])
def test_flags_that_are_not_asked_for_any_more_are_refused(
    configured: Path, backend: BackendName, name: str
) -> None:
    cache.remember(configured, {name: "-g"})
    with pytest.raises(BuildError, match=f"build.env.{name}: configured with -g, asked for nothi"):
        refuse(configured, backend)


def test_a_switch_that_an_interrupted_run_asked_for_can_be_taken_back(configured: Path) -> None:
    cache.remember(configured, {"USE_NCCL": "0"})
    refuse(configured, "scikit_build_core", USE_NCCL="0", USE_MPI="0")
    cache.remember(configured, {"USE_NCCL": "0", "USE_MPI": "0"})  # and CMake never ran
    refuse(configured, "scikit_build_core", USE_NCCL="0")
    text = (configured / "CMakeCache.txt").read_text(encoding="utf-8")
    (configured / "CMakeCache.txt").write_text(
        text.replace("USE_MPI:BOOL=ON", "USE_MPI:BOOL=0"), encoding="utf-8"
    )
    with pytest.raises(BuildError, match="USE_MPI: configured with 0, asked for nothing"):
        refuse(configured, "scikit_build_core", USE_NCCL="0")


def test_an_alias_is_looked_up_where_a_person_configured_the_folder(configured: Path) -> None:
    with (configured / "CMakeCache.txt").open("a", encoding="utf-8") as file:
        file.write("CUDNN_LIBRARY:STRING=/old\n")
    with pytest.raises(BuildError, match="CUDNN_LIB_DIR: configured with /old, asked for /new"):
        refuse(configured, CUDNN_LIB_DIR="/new")


def test_scikit_build_core_takes_a_changed_switch_and_refuses_what_hides_behind_an_alias(
    configured: Path,
) -> None:
    kept = {"USE_MPI": "1", "USE_CUDA_STATIC_LINK": "0", "CUDNN_LIB_DIR": "/old"}
    with (configured / "CMakeCache.txt").open("a", encoding="utf-8") as file:
        file.write("CAFFE2_STATIC_LINK_CUDA:STRING=0\nCUDNN_LIBRARY:STRING=/old\n")
    cache.remember(configured, kept)
    refuse(configured, "scikit_build_core", **{**kept, "USE_MPI": "0"})
    for changed in ({"USE_CUDA_STATIC_LINK": "1"}, {"CUDNN_LIB_DIR": "/new"}):
        with pytest.raises(BuildError, match=next(iter(changed))):
            refuse(configured, "scikit_build_core", **{**kept, **changed})


def test_other_target_gpus_are_refused_though_the_cache_does_not_name_them(
    configured: Path,
) -> None:
    cache.remember(configured, {"TORCH_CUDA_ARCH_LIST": "9.0"})
    with pytest.raises(BuildError, match=r"target\.gpus: configured with 9\.0, asked for 12\.0"):
        refuse(configured, TORCH_CUDA_ARCH_LIST="12.0")


def test_variable_that_cmake_does_not_keep_may_change(configured: Path) -> None:
    cache.remember(configured, {"CCACHE_DIR": "/a"})
    refuse(configured, CCACHE_DIR="/b")


def test_a_variable_that_cmake_has_not_seen_yet_is_refused_where_setup_py_hands_it_on_only_once(
    configured: Path,
) -> None:
    cache.remember(configured, {"USE_MPI": "1"})
    launcher = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}
    with pytest.raises(BuildError, match="LAUNCHER: configured with nothing, asked for ccache"):
        refuse(configured, **{"USE_MPI": "1", **launcher})
    refuse(configured, "scikit_build_core", **{"USE_MPI": "1", **launcher})


def test_values_of_a_first_configure_that_failed_are_not_taken_over(configured: Path) -> None:
    (configured / "build.ninja").unlink()
    cache.drop_unfinished(configured)
    refuse(configured, USE_MPI="0")
    assert not (configured / "CMakeCache.txt").exists()


def test_folder_that_was_never_configured_to_the_end_takes_everything(configured: Path) -> None:
    (configured / "build.ninja").unlink()
    refuse(configured, USE_MPI="0", CMAKE_BUILD_TYPE="Debug")
