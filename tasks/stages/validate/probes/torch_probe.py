"""Run checks in the Python interpreter that has torch. The only requirement is torch.

The argument is a JSON object, in which `cards` is the number of GPUs that the driver reports. Each
line of output is a JSON object: the result of a check, or data (`gpu`, `archs`).
"""

import importlib
import json
import sys
from pathlib import Path

# these modules are in the folder of this script
from execution_checks import check_compile, check_graph, check_nccl
from gpu_device import check_device, find_no_gpu_reason, run_on_device
from numeric_checks import check_autograd, check_convolution, check_matmul, check_reduction
from speed_checks import measure_speed
from verdicts import NothingToTryError, WrongResultError

REBUILD_HINT = "set target.gpus: auto, then run doit build"


def print_result(name, status, detail, remedy=""):
    detail = " ".join(str(detail).split())
    line = {"name": name, "status": status, "detail": detail, "remedy": remedy}
    print(json.dumps(line), flush=True)


def run_check(name, function, *arguments):
    """Run one check and print its result; an exception does not stop the other checks."""
    try:
        print_result(name, "passed", function(*arguments))
    except NothingToTryError as reason:
        print_result(name, "not run", reason)
    except WrongResultError as error:
        print_result(name, "failed", error, error.remedy)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        remedy = REBUILD_HINT if "no kernel image" in str(error) else ""
        first_line = str(error).strip().partition("\n")[0]
        print_result(name, "failed", f"{type(error).__name__}: {first_line}", remedy)


def check_version(given):
    import torch

    version, expected = str(torch.__version__), given["version"]
    if expected not in (version, version.partition("+")[0]):
        message = f"torch {version} was imported, not torch {expected}"
        raise WrongResultError(message, "run doit build, then doit validate")
    folder = Path(torch.__file__).resolve().parent
    if folder != Path(given["folder"]).resolve():
        raise WrongResultError(
            f"torch was imported from {folder}, not from {given['folder']}",
            "uninstall the other torch, or unset PYTHONPATH",
        )
    return version


def check_cuda(given):
    import torch

    cuda, expected = torch.version.cuda, given["cuda"]
    if cuda != expected:
        raise WrongResultError(
            f"torch was built with CUDA {cuda or 'none'}, not {expected or 'none'}",
            "check toolkit.version and torch.index",
        )
    return f"CUDA {cuda}" if cuda else "built without CUDA"


def import_modules(names):
    return ", ".join(importlib.import_module(name).__name__ for name in names)


def read_arch_flags():
    """Return the GPU architectures of torch, such as `sm_90 sm_120 compute_120`."""
    import torch

    # torch.cuda.get_arch_list is empty without a GPU; a minimal torch in tests has no _C
    flags = getattr(getattr(torch, "_C", None), "_cuda_getArchFlags", lambda: None)()
    return flags if flags is not None else " ".join(torch.cuda.get_arch_list())


def import_torch():
    import torch

    return f"torch {torch.__version__} from {Path(torch.__file__).parent}"


CHECKS = {  # checks that can hang come last
    "version": check_version,
    "cuda": check_cuda,
    "device": check_device,
    "matmul": run_on_device(check_matmul, allow_cpu=True),
    "reduction": run_on_device(check_reduction, allow_cpu=True),
    "convolution": run_on_device(check_convolution, allow_cpu=True),
    "autograd": run_on_device(check_autograd, allow_cpu=True),
    "graph": run_on_device(check_graph),
    "speed": run_on_device(measure_speed),
    "compile": run_on_device(check_compile),
    "nccl": run_on_device(check_nccl),
}


def main(given):
    run_check("import", import_torch)
    if "torch" not in sys.modules:
        return
    print_result("gpu", "data", find_no_gpu_reason(given))
    print_result("archs", "data", read_arch_flags())
    for name, function in CHECKS.items():
        if name in given["checks"]:
            run_check(name, function, given)
    unload_probe_modules()
    for name, imports in given["imports"].items():
        run_check(f"{name}: import", import_modules, imports)


def unload_probe_modules():
    """Unload the probe's modules, because an extension may have a module of the same name."""
    folder = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != folder]
    for script in folder.glob("*.py"):
        sys.modules.pop(script.stem, None)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
