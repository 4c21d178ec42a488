"""The report in a real Chromium: 10,000 outputs of 20 minutes on 16 slots, and what it shows, asks
for and prints. How long a frame takes is told, and no reason to fail.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.cli.commands import report
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tests.support import runrecords
from tests.support.checkout import ROOT

if sys.platform == "linux":
    from tests.real.chromium import Page, chromium, program

pytestmark = pytest.mark.real

EDGES = 10_000
FRAMES = """new Promise((done) => {
  const canvas = document.getElementById("canvas"), box = canvas.getBoundingClientRect();
  const times = [], before = Number(canvas.dataset.draws);
  function turn(at) {
    times.push(at);
    if (times.length > 60) {
      const gaps = times.slice(1).map((time, place) => time - times[place]).sort((a, b) => a - b);
      done({ median: gaps[30], worst: gaps[59], draws: Number(canvas.dataset.draws) - before });
      return;
    }
    STEP
    requestAnimationFrame(turn);
  }
  requestAnimationFrame(turn);
})"""
ZOOM = """canvas.dispatchEvent(new WheelEvent("wheel", { ctrlKey: true, cancelable: true,
  deltaY: times.length % 20 < 10 ? -40 : 40, clientX: box.left + 500, clientY: box.top + 60 }));"""
MOVE = """canvas.dispatchEvent(new WheelEvent("wheel", { shiftKey: true, cancelable: true,
  deltaY: times.length % 20 < 10 ? 30 : -30, clientX: box.left + 500, clientY: box.top + 60 }));"""
SCROLL = "scrollBy(0, times.length % 20 < 10 ? 90 : -90);"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    (root / "templates").symlink_to(ROOT / "templates")
    runs = root / "build" / "trial" / "records" / "runs"
    for day in (21, 22):
        told = runrecords.events(
            runrecords.edges(EDGES), failed=day == 22, when=f"2026-11-{day}T00:00:00+00:00"
        )
        runrecords.written(runs, told)
    report.run(SelectedProfile(Project.of_checkout(root), "trial", None))
    return root / "build" / "trial" / "report" / "report.html"


@pytest.fixture
def page(tmp_path: Path, written: Path) -> Iterator[Page]:
    if sys.platform != "linux" or not program():
        pytest.skip("not run: no Chromium here (apt-get install chromium)")
    with chromium(tmp_path / "profile") as opened:
        opened.become(1280, 900)
        opened.open(written)
        yield opened


def frames(page: Page, step: str) -> Any:
    return page.see(FRAMES.replace("STEP", step))


def test_all_edges_are_drawn_and_drawn_again(page: Page, written: Path) -> None:
    drawn = int(page.see("canvas.dataset.drawn"))
    assert drawn == EDGES
    page.see("document.getElementById('timeline').scrollIntoView()")
    for name, step in (("zooming", ZOOM), ("moving", MOVE), ("scrolling", SCROLL)):
        found = frames(page, step)
        print(f"{name}: a frame in {found['median']:.1f} ms, at most {found['worst']:.1f} ms")
        assert found["draws"] >= 30 or name == "scrolling"
    page.see("document.getElementById('whole').click()")
    page.see("new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame))")
    assert int(page.see("canvas.dataset.drawn")) == EDGES
    print(f"{written.stat().st_size / 2**20:.2f} MiB of HTML")


def test_nothing_is_asked_of_a_network_and_the_console_is_silent(page: Page) -> None:
    frames(page, ZOOM)
    assert page.requests() == []
    assert page.complaints() == []


def test_its_own_policy_keeps_a_script_from_the_network(page: Page) -> None:
    page.see("fetch('http://127.0.0.1:9/x').catch(() => 0)")
    assert any("Content Security Policy" in one for one in page.complaints())


def test_a_page_of_a_phone_does_not_scroll_sideways(page: Page, written: Path) -> None:
    page.become(360, 740, phone=True)
    page.open(written)
    assert page.see("document.documentElement.scrollWidth") == 360
    assert int(page.see("canvas.dataset.drawn")) == EDGES


def test_light_and_dark_differ_in_page_and_timeline(page: Page) -> None:
    pixels = "[...canvas.getContext('2d').getImageData(200, 30, 1, 1).data].join()"
    light = page.screenshot(), page.see(pixels)
    page.become(1280, 900, dark=True)
    page.see("new Promise((done) => setTimeout(done, 300))")
    dark = page.screenshot(), page.see(pixels)
    assert light[0] != dark[0]
    assert light[1] != dark[1]


def test_pointing_at_an_output_tells_of_it(page: Page) -> None:
    page.see("document.getElementById('timeline').scrollIntoView()")
    box = page.see("(({ left, top }) => [left, top])(canvas.getBoundingClientRect())")
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + 400, y=box[1] + 30)
    told = page.see("document.getElementById('tip').innerText")
    assert "Kernel" in told
    assert "compile, began at" in told


def test_a_slow_output_of_the_table_is_shown_in_the_timeline(page: Page) -> None:
    page.see("document.querySelector('.path .link').click()")
    page.see("new Promise((done) => setTimeout(done, 300))")
    assert page.see("document.querySelector('.path .link').textContent.split('/').pop()") in (
        page.see("document.getElementById('tip').innerText")
    )
    assert int(page.see("canvas.dataset.drawn")) < EDGES


def test_keys_zoom_and_move(page: Page) -> None:
    page.see("canvas.focus()")
    for key in ("+", "+", "ArrowRight"):
        page.ask("Input.dispatchKeyEvent", type="keyDown", key=key)
    page.see("new Promise((done) => setTimeout(done, 200))")
    assert int(page.see("canvas.dataset.drawn")) < EDGES
    page.ask("Input.dispatchKeyEvent", type="keyDown", key="0")
    page.see("new Promise((done) => setTimeout(done, 200))")
    assert int(page.see("canvas.dataset.drawn")) == EDGES


def test_it_prints(page: Page) -> None:
    page.become(1280, 900, dark=True)
    page.see("document.getElementById('in').click()")
    found = page.printed()
    assert found.startswith(b"%PDF")
    assert found.count(b"/Type /Page\n") >= 4


def test_the_tables_are_there_without_a_script(page: Page, written: Path) -> None:
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    page.open(written)
    page.ask("Emulation.setScriptExecutionDisabled", value=False)
    assert page.see("document.querySelectorAll('table.outputs tbody tr').length") > 60
    assert page.see("document.getElementById('timeline').hidden")
    assert "needs JavaScript" in page.see("document.querySelector('noscript').innerText")
