from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath

from tasks.core.model import Arch, ValidationResult
from tasks.knowledge.machine_code_rules import MachineCode
from tasks.stages.validate.check_results import (
    ProbeOutput,
    ProbeRun,
    add_diagnosis,
    build_probe_check,
    build_validation,
    check_coverage,
    combine_checks,
    fail_without_cuda,
    format_validation,
    join_hints,
    parse_arch_flags,
    parse_probe_lines,
    select_checks,
    shorten_paths,
)
from tests.support.checkout import KNOWLEDGE

BLACKWELL = (Arch(12, 0),)


def check_code(
    name: str, code: MachineCode, targets: tuple[Arch, ...], source: str, maker: str | None = None
) -> ValidationResult:
    return check_coverage(KNOWLEDGE, name, code, targets, source, maker)


def line(name: str, status: str, detail: str = "", remedy: str = "") -> str:
    return f'{{"name": "{name}", "status": "{status}", "detail": "{detail}", "remedy": "{remedy}"}}'


def test_foreign_probe_output_is_ignored() -> None:
    parsed = parse_probe_lines(
        ["hello", f"no newline{line('import', 'passed', 'x')}", '{"name": broken}', "{}"]
    )
    assert list(parsed) == ["import"]
    passed = ValidationResult("import", "passed", "x")
    assert build_probe_check("import", ProbeOutput(parsed)) == passed


def test_check_that_ended_probe_fails_and_others_are_reported() -> None:
    parsed = parse_probe_lines([line("import", "passed"), line("convolution", "passed")])
    expected = ["import", "version", "convolution", "matmul"]
    output = ProbeOutput(parsed, {"version": ProbeRun((), "signal 11")}, "the GPU hung")
    found = [build_probe_check(name, output) for name in expected]
    assert [check.status for check in found] == ["passed", "failed", "passed", "not run"]
    assert (found[1].detail, found[3].detail) == ("signal 11", "the GPU hung")


def test_unreported_check_is_not_passed() -> None:
    check = build_probe_check("matmul", ProbeOutput({}))
    assert (check.status, check.detail) == ("not run", "the check program ended before this check")


def test_unknown_status_is_failure() -> None:
    parsed = ProbeOutput(parse_probe_lines([line("matmul", "data"), line("device", "skipped")]))
    assert {build_probe_check(name, parsed).status for name in ("matmul", "device")} == {"failed"}


def test_coverage_kind_of_each_target_is_reported() -> None:
    code = parse_arch_flags("sm_80 sm_120 compute_120")
    assert code == MachineCode(frozenset({Arch(8, 0), Arch(12, 0)}), frozenset({Arch(12, 0)}))
    check = check_code("archs", code, (Arch(8, 9), Arch(12, 0), Arch(12, 1)), "lib")
    assert check == ValidationResult(
        "archs", "passed", "lib: 8.9 compatible, 12.0 native, 12.1 compatible"
    )
    only_ptx = MachineCode(ptx=frozenset({Arch(9, 0)}))
    assert "(it has 9.0+PTX)" in check_code("archs", only_ptx, (Arch(8, 0),), "lib").detail
    assert check_code("archs", only_ptx, BLACKWELL, "lib").detail == "lib: 12.0 ptx"


def test_target_without_code_is_reported_with_remedy() -> None:
    check = check_code(
        "machine_code", parse_arch_flags("sm_90"), (Arch(9, 0), Arch(12, 0)), "lib.so"
    )
    assert (check.status, check.detail) == ("failed", "lib.so holds no code for 12.0 (it has 9.0)")
    assert "target.gpus" in check.remedy


def test_orin_runs_discrete_gpu_code_from_cuda_13_2() -> None:
    code, orin = parse_arch_flags("sm_80"), (Arch(8, 7),)
    assert check_code("machine_code", code, orin, "lib.so", "13.0").status == "failed"
    assert (
        check_code("machine_code", code, orin, "lib.so", "13.2.86").detail
        == "lib.so: 8.7 compatible"
    )


def test_coverage_without_targets_is_not_run() -> None:
    assert check_code("archs", MachineCode(), (), "lib").status == "not run"


def test_one_failed_library_fails_extension() -> None:
    good, bad = (
        ValidationResult("x", "passed", "a.so: 12.0 native"),
        ValidationResult("x", "failed", "b.so", "rebuild"),
    )
    none = ValidationResult("x", "not run", "c.so holds no device code")
    assert combine_checks("x", [good, bad, none]) == ValidationResult(
        "x", "failed", "b.so", "rebuild"
    )
    assert combine_checks("x", [good, none]).status == "passed"
    assert combine_checks("x", [none]).status == "not run"
    assert combine_checks("x", []).status == "not run"


def test_selected_checks_keep_order_and_failures_are_always_shown() -> None:
    checks = [
        ValidationResult("smoke: import", "passed", ""),
        ValidationResult("smoke: machine code", "passed", ""),
        ValidationResult("matmul", "not run", "no GPU"),
        ValidationResult("import", "failed", "no"),
    ]
    names = [check.name for check in select_checks(checks, ["machine_code", "extensions"])]
    assert names == ["import", "smoke: machine code", "smoke: import"]
    quiet = [ValidationResult("import", "passed", ""), *checks[:3]]
    assert [check.name for check in select_checks(quiet, ["matmul"])] == ["matmul"]


def test_not_run_is_never_shown_as_passed() -> None:
    checks = [
        ValidationResult("import", "passed", "torch"),
        ValidationResult("matmul", "not run", "no GPU"),
    ]
    found = build_validation("2.15.0", checks)
    assert found.counts == {"passed": 1, "failed": 0, "not run": 1}
    assert found.schema == 2
    shown = format_validation(found).splitlines()
    assert shown[1] == "not run  matmul  no GPU"
    assert shown[-1] == "torch 2.15.0: 1 passed, 0 failed, 1 not run"


def test_checks_not_run_for_same_reason_share_line() -> None:
    found = build_validation(
        "2.15.0",
        [
            ValidationResult("import", "passed", "torch"),
            ValidationResult("device", "not run", "no GPU"),
            ValidationResult("compile", "not run", "no triton"),
            *(ValidationResult(name, "not run", "no GPU") for name in ("matmul", "graph")),
        ],
    )
    assert format_validation(found).splitlines() == [
        "passed   import   torch",
        "not run (no GPU): device, matmul, graph",
        "not run  compile  no triton",
        "torch 2.15.0: 1 passed, 0 failed, 4 not run",
    ]
    shown = format_validation(found, 34, lambda text, style: f"<{style}>{text}</>").splitlines()
    assert shown[1:3] == ["<33>not run</> (no GPU): device, matmul,", "        graph"]
    assert len(found.checks) == 5


def test_only_status_is_colored_in_terminal() -> None:
    found = build_validation("2.15.0", [ValidationResult("matmul", "not run", "no GPU")])
    shown = format_validation(found, 80, lambda text, style: f"<{style}>{text}</>").splitlines()
    assert shown[0] == "<33>not run</>  matmul  no GPU"


def test_long_cells_wrap_in_their_column() -> None:
    found = build_validation(
        "2.15.0", [ValidationResult("matmul", "failed", "much " * 12, "do " * 20)]
    )
    shown = format_validation(found, 44).splitlines()
    assert shown[0].startswith("failed   matmul  much much")
    assert [line for line in shown if line.strip().startswith("→")] == [
        "                 → do do do do do do do do"
    ]
    assert all(len(line) <= 44 for line in shown[:-1])


def test_table_shows_remedy_and_escapes_no_markup() -> None:
    found = build_validation(
        "2.15.0", [ValidationResult("device", "failed", "[red]odd[/red] [x", "do [this]")]
    )
    assert format_validation(found).splitlines()[1].strip() == "→ do [this]"
    assert "[red]odd[/red] [x" in format_validation(found, 100)


def test_paths_in_checkout_are_shown_relative() -> None:
    others = "not /home/me/yard2 or /x/home/me/yard/a"
    detail = f"torch 2.15.0 from /home/me/yard/build/p/venv/torch, {others}"
    found = build_validation("2.15.0", [ValidationResult("import", "passed", detail)])
    shown_text = shorten_paths(PurePosixPath("/home/me/yard"), found).checks[0].detail
    assert shown_text == f"torch 2.15.0 from build/p/venv/torch, {others}"
    found = build_validation(
        "2.15.0", [ValidationResult("import", "passed", r"torch from C:\yard\build\torch")]
    )
    shown_text = shorten_paths(PureWindowsPath(r"C:\yard"), found).checks[0].detail
    assert shown_text == r"torch from build\torch"


def test_warning_precedes_table() -> None:
    found = build_validation(
        "2.15.0", [ValidationResult("import", "passed", "")], ("[x] moved: doit build",)
    )
    assert format_validation(found).splitlines()[0] == "warning  [x] moved: doit build"


def test_failure_without_remedy_gets_remedy_of_cause() -> None:
    bare = ValidationResult("matmul", "failed", "AcceleratorError: no kernel image")
    shown_text = add_diagnosis(KNOWLEDGE, bare)
    assert shown_text == bare, "not the whole sentence of the driver"
    whole = replace(bare, detail=f"{bare.detail} is available for execution on the device")
    shown_text = add_diagnosis(KNOWLEDGE, whole)
    assert shown_text.cause == "no-kernel-image"
    assert "doit build" in shown_text.remedy
    own = add_diagnosis(KNOWLEDGE, replace(whole, remedy="mine"))
    assert (own.cause, own.remedy) == ("no-kernel-image", "mine")


def test_check_detail_outranks_other_output_in_diagnosis() -> None:
    check = ValidationResult(
        "x: import", "failed", "ImportError: x.so: undefined symbol: _ZN2at4nope"
    )
    noise = "numpy.core.multiarray failed to import"
    assert add_diagnosis(KNOWLEDGE, check, noise).cause == "abi-undefined-symbol"
    assert add_diagnosis(KNOWLEDGE, replace(check, detail="?"), noise).cause == "numpy-abi-mismatch"
    assert add_diagnosis(KNOWLEDGE, ValidationResult("x", "not run", noise)).cause == ""


def test_cpu_torch_never_passes_gpu_checks() -> None:
    found = fail_without_cuda(
        [
            ValidationResult("import", "passed", "torch 2.15.0"),
            ValidationResult("version", "failed", "torch 2.15.0+cpu was imported", "see"),
            ValidationResult(
                "cuda", "failed", "built with CUDA none, not 13.2", "see toolkit.version"
            ),
            ValidationResult("archs", "not run", "torch without CUDA"),
            ValidationResult("matmul", "passed", "0.2 of the tolerance on cpu"),
            ValidationResult("smoke: import", "passed", ""),
        ],
        "13.2",
        "doit build",
    )
    states = {check.name: check.status for check in found}
    assert states == {
        "import": "passed",
        "version": "failed",
        "cuda": "failed",
        "archs": "failed",
        "matmul": "not run",
        "smoke: import": "passed",
    }
    remedies = {check.remedy for check in found if check.status == "failed"}
    assert remedies == {"install torch again: doit build"}


def test_each_remedy_is_shown_once() -> None:
    failed = [ValidationResult(name, "failed", "", "again") for name in "ab"]
    assert join_hints([*failed, ValidationResult("c", "failed", "")]) == "again"
