"""The steps of a remedy for the system of the log."""

from tasks.diagnosis.remedy_steps import write_for_system


def test_windows_sets_variables_without_export() -> None:
    steps = ("select it: export CUDA_HOME=/usr/local/cuda-12.8. Then build",)
    folder = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.8"
    assert write_for_system(steps, "Windows") == (
        f'select it: set "CUDA_HOME={folder}". Then build',
    )


def test_variables_before_command_are_set_first() -> None:
    steps = ('run TORCH_CUDA_ARCH_LIST="8.6" pip install X',)
    assert write_for_system(steps, "Windows") == (
        "run set TORCH_CUDA_ARCH_LIST=8.6, then pip install X",
    )


def test_steps_for_other_systems_are_left_out() -> None:
    steps = ("install it: apt install g++", "open the x64 Native Tools prompt (on Windows)")
    assert write_for_system(steps, "Windows") == steps[1:]
    assert write_for_system(steps, "Ubuntu 22.04") == steps[:1]


def test_steps_for_linux_are_left_out_on_macos() -> None:
    steps = (
        "run unset LD_LIBRARY_PATH",
        "install it: apt install g++ (Debian, Ubuntu), or brew install gcc (macOS)",
        "update CUDA to 10.1 update 2",
        "install g++-12 (on Linux)",
    )
    assert write_for_system(steps, "macOS") == steps[1:3]


def test_all_steps_remain_without_system_or_replacement() -> None:
    steps = ("install it: apt install g++",)
    assert write_for_system(steps, "") == steps
    assert write_for_system(steps, "Windows") == steps


def test_steps_for_macos_are_left_out_elsewhere() -> None:
    steps = ("install it: apt install g++", "copy it to the folder in the message (on macOS)")
    assert write_for_system(steps, "Debian 12") == steps[:1]
    assert write_for_system(steps, "macOS") == steps[1:]
