"""Exact commands of the build backends."""

from __future__ import annotations

from pathlib import PurePosixPath

from tasks.stages.compile.build_backends import (
    BACKENDS,
    BuildSpec,
    create_reconfigure_step,
    detect_backend,
)
from tasks.stages.compile.model import BackendName

TREE, OURS = PurePosixPath("/tree"), PurePosixPath("/ours")
BUILD = ("/py", "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check", "--outdir")


def work(target: str | None = None, **definitions: str) -> BuildSpec:
    return BuildSpec(
        tree=TREE,
        build_root=OURS,
        python="/py",
        cmake="/cmake",
        ninja="/ninja",
        type="Debug",
        definitions=definitions,
        target=target,
        jobs=3,
    )


def configure(backend: BackendName, given: BuildSpec) -> tuple[str, ...]:
    return BACKENDS[backend].create_configure_step(given).argv


def compile_with(backend: BackendName, given: BuildSpec) -> tuple[str, ...]:
    return BACKENDS[backend].create_compile_step(given).argv


def test_backend_is_detected_from_pyproject() -> None:
    assert detect_backend("") == "setup_py"
    assert detect_backend('build-backend = "setuptools.build_meta"') == "setup_py"
    assert detect_backend('build-backend = "scikit_build_core.build"') == "scikit_build_core"


def test_setup_py_configures_and_cmake_compiles() -> None:
    step = BACKENDS["setup_py"].create_configure_step(work())
    assert step.argv == ("/py", "setup.py", "build", "--cmake-only")
    assert step.env["CMAKE_BUILD_TYPE"] == "Debug"
    step = BACKENDS["setup_py"].create_compile_step(work())
    assert step.argv == ("/cmake", "--build", "/tree/build", "--target", "install")
    assert step.env == {"CMAKE_BUILD_PARALLEL_LEVEL": "3"}


def test_single_target_is_built() -> None:
    for backend, folder in (("setup_py", "/tree/build"), ("cmake", "/ours/cmake")):
        argv = compile_with(backend, work("c10"))  # type: ignore[arg-type]
        assert argv == ("/cmake", "--build", folder, "--target", "c10")


def test_reconfigure_step_unsets_and_sets_cache_entries() -> None:
    step = create_reconfigure_step(work(), TREE / "build", ("-UBLAS_*", "-DBLAS=MKL"))
    assert step.argv == ("/cmake", "-UBLAS_*", "-DBLAS=MKL", "/tree/build")


def test_setup_py_wheel_uses_build_folder_of_tree() -> None:
    backend = BACKENDS["setup_py"]
    quick = (
        "-C--build-option=--compression=stored",
        "-C--build-option=--bdist-dir=build/bdist.torchyard/wheel",
    )
    assert backend.create_wheel_step(work()).argv == (*BUILD, "{dest}", *quick, ".")
    assert backend.find_build_folder(work()) == TREE / "build"


def test_scikit_configures_without_compiling_and_reuses_folder_for_wheel() -> None:
    config = ("-Cbuild-dir=/ours/cmake", "-Ccmake.build-type=Debug")
    nothing = ("-Cbuild.targets=help", "-Cinstall.components=nothing")
    argv = configure("scikit_build_core", work())
    assert argv == (*BUILD, "/ours/scratch", *config, *nothing, ".")
    argv = compile_with("scikit_build_core", work())
    assert argv == ("/cmake", "--build", "/ours/cmake", "--target", "all")
    wheel = BACKENDS["scikit_build_core"].create_wheel_step(work()).argv
    assert wheel == (*BUILD, "{dest}", *config, ".")


def test_cmake_backend_passes_variables_as_definitions() -> None:
    given = work(USE_MPI="0", BLAS="MKL", CMAKE_GENERATOR="Ninja")
    argv = configure("cmake", given)
    assert argv[:7] == ("/cmake", "-S", "/tree", "-B", "/ours/cmake", "-G", "Ninja")
    assert [part for part in argv if part.startswith("-DB")] == [
        "-DBLAS=MKL",
        "-DBUILD_PYTHON=OFF",
        "-DBUILD_SHARED_LIBS=ON",
    ]
    assert {"-DUSE_MPI=0", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_MAKE_PROGRAM=/ninja"} < {*argv}
    assert not any("GENERATOR" in part for part in argv)


def test_cmake_backend_installs_into_prefix() -> None:
    argv = BACKENDS["cmake"].create_wheel_step(work()).argv
    assert argv == ("/cmake", "--install", "/ours/cmake", "--prefix", "{dest}")
