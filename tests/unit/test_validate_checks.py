from __future__ import annotations

from tasks.knowledge.archs import MachineCode
from tasks.model import Arch
from tasks.stages.validate.checks import (
    asked_for,
    compiled_for,
    covering,
    from_probe,
    joined,
    reported,
    validation,
)
from tasks.stages.validate.job import Check
from tasks.stages.validate.table import coloured, plain, remedies
from tests.checkout import KNOWLEDGE

BLACKWELL = (Arch(12, 0),)


def judged(
    name: str, code: MachineCode, targets: tuple[Arch, ...], source: str, maker: str | None = None
) -> Check:
    return covering(KNOWLEDGE, name, code, targets, source, maker)


def line(name: str, status: str, detail: str = "", remedy: str = "") -> str:
    return f'{{"name": "{name}", "status": "{status}", "detail": "{detail}", "remedy": "{remedy}"}}'


def test_what_others_print_is_passed_over() -> None:
    said = reported(
        ["hello", f"no newline{line('import', 'passed', 'x')}", '{"name": broken}', "{}"]
    )
    assert list(said) == ["import"]
    assert from_probe(["import"], said, "") == [Check("import", "passed", "x")]


def test_a_probe_that_ends_early_fails_the_check_it_was_at() -> None:
    said = reported([line("import", "passed"), line("version", "passed")])
    found = from_probe(["import", "version", "matmul", "convolution"], said, "signal 11")
    assert [check.status for check in found] == ["passed", "passed", "failed", "not run"]
    assert found[2].detail == "signal 11"


def test_a_probe_that_is_silent_has_not_passed() -> None:
    assert [check.status for check in from_probe(["import", "matmul"], {}, "")] == [
        "failed",
        "not run",
    ]


def test_what_needs_torch_is_not_run_where_it_does_not_import() -> None:
    said = reported([line("import", "failed", "ImportError: libcudart", "look")])
    found = from_probe(["import", "matmul"], said, "")
    assert found[0] == Check("import", "failed", "ImportError: libcudart", "look")
    assert found[1] == Check("matmul", "not run", "torch does not import")


def test_an_unknown_status_is_a_failure() -> None:
    said = reported([line("matmul", "data"), line("device", "skipped")])
    assert {check.status for check in from_probe(["matmul", "device"], said, "")} == {"failed"}


def test_each_target_is_told_how_it_runs() -> None:
    code = compiled_for("sm_80 sm_120 compute_120")
    assert code == MachineCode(frozenset({Arch(8, 0), Arch(12, 0)}), frozenset({Arch(12, 0)}))
    check = judged("archs", code, (Arch(8, 9), Arch(12, 0), Arch(12, 1)), "lib")
    assert check == Check("archs", "passed", "lib: 8.9 compatible, 12.0 native, 12.1 compatible")
    only_ptx = MachineCode(ptx=frozenset({Arch(9, 0)}))
    assert judged("archs", only_ptx, BLACKWELL, "lib").detail == "lib: 12.0 ptx"


def test_a_target_without_code_is_named_with_the_remedy() -> None:
    check = judged("machine_code", compiled_for("sm_90"), (Arch(9, 0), Arch(12, 0)), "lib.so")
    assert (check.status, check.detail) == ("failed", "lib.so holds no code for 12.0 (it has 9.0)")
    assert "target.gpus" in check.remedy


def test_orin_runs_code_of_other_cards_that_cuda_13_2_made() -> None:
    code, orin = compiled_for("sm_80"), (Arch(8, 7),)
    assert judged("machine_code", code, orin, "lib.so", "13.0").status == "failed"
    assert (
        judged("machine_code", code, orin, "lib.so", "13.2.86").detail == "lib.so: 8.7 compatible"
    )


def test_no_target_is_not_run() -> None:
    assert judged("archs", MachineCode(), (), "lib").status == "not run"


def test_one_bad_library_fails_the_extension_and_one_without_code_does_not_hide_it() -> None:
    good, bad = Check("x", "passed", "a.so: 12.0 native"), Check("x", "failed", "b.so", "rebuild")
    none = Check("x", "not run", "c.so holds no device code")
    assert joined("x", [good, bad, none]) == Check("x", "failed", "b.so", "rebuild")
    assert joined("x", [good, none]).status == "passed"
    assert joined("x", [none]).status == "not run"
    assert joined("x", []).status == "not run"


def test_only_what_is_asked_for_is_told_in_its_order_but_a_failure_always() -> None:
    checks = [
        Check("smoke: import", "passed", ""),
        Check("smoke: machine code", "passed", ""),
        Check("matmul", "not run", "no GPU"),
        Check("import", "failed", "no"),
    ]
    names = [check.name for check in asked_for(checks, ["machine_code", "extensions"])]
    assert names == ["import", "smoke: machine code", "smoke: import"]
    quiet = [Check("import", "passed", ""), *checks[:3]]
    assert [check.name for check in asked_for(quiet, ["matmul"])] == ["matmul"]


def test_not_run_is_never_counted_or_shown_as_passed() -> None:
    checks = [Check("import", "passed", "torch"), Check("matmul", "not run", "no GPU")]
    found = validation("2.15.0", checks)
    assert found.counts == {"passed": 1, "failed": 0, "not run": 1}
    assert found.schema == 1
    shown = plain(found).splitlines()
    assert shown[1] == "not run  matmul  no GPU"
    assert shown[-1] == "torch 2.15.0: 1 passed, 0 failed, 1 not run"
    (row,) = [row for row in coloured(found, 80).splitlines() if "matmul" in row]
    assert "not run" in row
    assert "passed" not in row


def test_the_table_shows_a_failure_with_its_remedy_and_takes_no_markup_from_it() -> None:
    found = validation("2.15.0", [Check("device", "failed", "[red]odd[/red] [x", "do [this]")])
    assert plain(found).splitlines()[1].strip() == "→ do [this]"
    shown = coloured(found, 100)
    assert "[red]odd[/red] [x" in shown
    assert "→ do [this]" in shown


def test_each_remedy_is_told_once() -> None:
    failed = [Check(name, "failed", "", "again") for name in "ab"]
    assert remedies([*failed, Check("c", "failed", "")]) == "again"
