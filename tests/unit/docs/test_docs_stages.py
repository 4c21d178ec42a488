"""docs/stages has a page for each stage that covers all facts of the plan."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tasks.core.model import Stage
from tasks.core.project import Project
from tasks.planning.profile_plan import STAGE_KINDS, build_layout, make_plan
from tasks.settings.schema import parse_settings
from tasks.settings.settings_page import SETTING_EXAMPLES
from tests.support.checkout import HOST, KNOWLEDGE, ROOT
from tests.support.rows import each_row

SETTINGS = parse_settings(
    {
        "torch": {"strategy": "source"},
        "extensions": [{"name": "NAME", "path": "mine"}],
        "install": {"into": "/home/me/env/bin/python"},
    }
)


def stages() -> dict[str, Stage]:
    layout = build_layout(Project.of_checkout(PurePosixPath("/yard")), "PROFILE", SETTINGS)
    _, plan = make_plan(SETTINGS, HOST, KNOWLEDGE, layout)
    return {stage.kind: stage for stage in (*plan.stages, plan.validate)}


def page(name: str) -> str:
    return (ROOT / "docs" / "stages" / f"{name}.md").read_text(encoding="utf-8")


@each_row("name", STAGE_KINDS)
def test_stage_page_names_outputs_and_log(name: str) -> None:
    stage = stages()[name]
    for path in (
        *stage.outputs,
        *(path for path in stage.extra_outputs if path.suffix in {".sh", ".xml"}),
    ):
        assert path.name in page(name), path
    assert f"build/PROFILE/logs/{stage.job.log.name}`" in page(name)


@each_row("name", STAGE_KINDS)
def test_stage_page_links_to_every_setting_that_causes_a_rerun(name: str) -> None:
    linked = set(re.findall(r"settings\.md#([\w-]+)", page(name)))
    for key, example in SETTING_EXAMPLES.items():
        if name in example.stages and key != "python":
            assert key.replace(".", "") in linked, key


@each_row("name", STAGE_KINDS)
def test_stage_page_has_common_sections_and_single_stage_command(name: str) -> None:
    titles = re.findall(r"^## (.*)$", page(name), re.MULTILINE)
    assert titles == ["Makes", "Runs again", "Settings", "Log", "What can go wrong"]
    assert f"```sh\ntorchyard {name}\n```" in page(name)
    assert f"[{name}]({name}.md)" in page("index")
