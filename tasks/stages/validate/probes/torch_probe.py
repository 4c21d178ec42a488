"""Looks at a torch from inside, run by the interpreter that has it; needs nothing but torch.

Given on the command line: a JSON object with `checks`, `version`, `folder`, `cuda`, `cards` (how
many the driver names) and `imports` (extension → modules). Prints a JSON object per line: name,
status, detail, remedy. The lines `gpu` and `archs` have the status "data": what they say is judged
by the caller.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from arithmetic import convolution, matmul  # these lie beside this script
from card import anywhere, device, no_gpu, on_a_card
from communication import nccl
from compiling import compiled
from gradients import autograd
from graphs import graph
from reductions import reduction
from speed import speed
from verdicts import NothingToTryError, WrongResultError

REBUILD = "build for this card: target.gpus: auto, then doit build"


def say(name, status, detail, remedy=""):
    line = {
        "name": name,
        "status": status,
        "detail": " ".join(str(detail).split()),
        "remedy": remedy,
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def check(name, function, *arguments):
    """Run one check and say how it ended; no exception of it ends the others."""
    try:
        say(name, "passed", function(*arguments))
    except NothingToTryError as reason:
        say(name, "not run", reason)
    except WrongResultError as error:
        say(name, "failed", error, error.remedy)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        remedy = REBUILD if "no kernel image" in str(error) else ""
        say(
            name,
            "failed",
            f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
            remedy,
        )


def version(given):
    import torch

    found, wanted = str(torch.__version__), given["version"]
    if found != wanted and ("+" in wanted or found.partition("+")[0] != wanted):
        raise WrongResultError(
            f"this is torch {found}, not {wanted}", "run doit build, then doit validate"
        )
    folder = Path(torch.__file__).resolve().parent
    if folder != Path(given["folder"]).resolve():
        raise WrongResultError(
            f"torch comes from {folder}, not from {given['folder']}",
            "remove the other torch, or PYTHONPATH",
        )
    return found


def cuda(given):
    import torch

    found, wanted = torch.version.cuda, given["cuda"]
    if found != wanted:
        raise WrongResultError(
            f"built with CUDA {found or 'none'}, not {wanted or 'none'}",
            "see toolkit.version and torch.index",
        )
    return f"CUDA {found}" if found else "built without CUDA"


def modules(names):
    for name in names:
        importlib.import_module(name)
    return ", ".join(names)


def arch_flags():
    """What this torch was compiled for, also where there is no card: "sm_90 sm_120 compute_120"."""
    import torch

    core = getattr(torch, "_C", None)  # a torch in miniature has none
    flags = getattr(core, "_cuda_getArchFlags", lambda: None)()
    return flags if flags is not None else " ".join(torch.cuda.get_arch_list())


def importing():
    import torch

    return f"torch {torch.__version__} from {Path(torch.__file__).parent}"


CHECKS = {  # what can hang comes last
    "version": version,
    "cuda": cuda,
    "device": device,
    "matmul": anywhere(matmul),
    "reduction": anywhere(reduction),
    "convolution": anywhere(convolution),
    "autograd": anywhere(autograd),
    "graph": on_a_card(graph),
    "speed": on_a_card(speed),
    "compile": on_a_card(compiled),
    "nccl": on_a_card(nccl),
}


def main(given):
    check("import", importing)
    if "torch" not in sys.modules:
        return
    say("gpu", "data", no_gpu(given))
    say("archs", "data", arch_flags())
    for name, function in CHECKS.items():
        if name in given["checks"]:
            check(name, function, given)
    step_aside()
    for name, imports in given["imports"].items():
        check(f"{name}: import", modules, imports)


def step_aside():
    """An extension may be called as one of these scripts is."""
    folder = Path(__file__).resolve().parent
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != folder]
    for name in [script.stem for script in folder.glob("*.py")]:
        sys.modules.pop(name, None)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
