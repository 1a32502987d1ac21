"""What an operator does with a pipeline: finds what failed, learns why, has it made again, and watches."""

import json
import os
import re
import subprocess
import sys

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Visit, press
from tests.browser.site import Site

WORK = [sys.executable, "-m", "headgate", "job", "run"]


@pytest.fixture
def failed(site: Site, request: pytest.FixtureRequest) -> str:
    """A separate chain of jobs, raw to clean to tidy to report to sent, in which clean failed on chunk 7."""
    name = re.sub(r"\W", "-", request.node.name.removeprefix("test_"))[:20]
    ledger = site.gate.ledger
    for dataset in ("raw", "tidy", "sent"):
        ledger.define_dataset(f"{name}-{dataset}")
    ledger.define_job(f"{name}-clean", inputs=[f"{name}-raw"], outputs=[f"{name}-tidy"], max_attempts=1)
    ledger.define_job(f"{name}-report", inputs=[f"{name}-tidy"], outputs=[f"{name}-sent"])
    ledger.publish(f"{name}-raw", ["7"])
    for job in ("clean", "report"):
        claim = ledger.find_next(f"{name}-{job}", worker="node1")
        assert claim
        ledger.success(claim)
    ledger.resubmit(f"{name}-clean", "7", reason="new source")
    claim = ledger.find_next(f"{name}-clean", worker="node2")
    assert claim
    ledger.fail(claim, message=f"disk full on node2 for {name}")
    return name


def work(site: Site, job: str) -> None:
    """A worker does all the work of the job."""
    environment = {**os.environ, "HEADGATE_URL": f"sqlite:///{site.folder}/headgate.sqlite"}
    done = subprocess.run(
        [*WORK, job, "--loop", "--", "true"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def tab_to(page: Page, wanted: Locator) -> None:
    """By the Tab key alone."""
    for _ in range(100):
        press(page, "Tab")
        if wanted.evaluate("each => each === document.activeElement"):
            return
    expect(wanted).to_be_focused()


def watch_it_finish(site: Site, page: Page, name: str) -> None:
    """Both jobs run in separate processes; the page follows without interaction."""
    expect(page.locator("#status")).to_have_text("RESUBMIT")
    work(site, f"{name}-clean")
    expect(page.locator("#status")).to_have_text("READY")
    work(site, f"{name}-report")
    expect(page.locator("#read-by-1")).to_contain_text("READY")
    told = [json.dumps(entry.reason) for entry in site.gate.history(job=f"{name}-clean", dataid="7", event="resubmit")]
    assert "the disk is larger now" in told[0]


def test_a_failed_chunk_is_found_understood_and_made_again_by_mouse(site: Site, failed: str, visit: Visit) -> None:
    page = visit(site)
    expect(page.get_by_role("heading", level=1)).to_contain_text("failed")
    page.locator("#need-failed-chunks").get_by_role("link", name="See why").click()
    page.get_by_label("Job", exact=True).select_option(f"{failed}-clean")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("table", name="Chunks").get_by_role("link", name="7", exact=True).click()
    expect(page.locator("#message")).to_contain_text("disk full on node2")
    expect(page.locator(".conditions")).to_contain_text("it used up its attempts (1 of 1 failed)")
    page.get_by_role("link", name="Resubmit downstream too…").click()
    dialog = page.get_by_role("dialog", name=f"Resubmit {failed}-tidy/7 and everything that was made from it?")
    expect(dialog).to_contain_text("2 chunks will run again")
    expect(dialog).to_contain_text(f"1 of {failed}-report")
    expect(dialog.get_by_role("link", name="Leave it")).to_be_focused()
    dialog.get_by_label("Reason").fill("the disk is larger now")
    dialog.get_by_role("button", name="Resubmit downstream too").click()
    expect(page.get_by_role("alert")).to_contain_text("2 chunks will run again")
    watch_it_finish(site, page, failed)


def test_the_same_by_keyboard_alone(site: Site, failed: str, visit: Visit) -> None:
    page = visit(site)
    press(page, "g", "p")
    expect(page.get_by_role("heading", level=1)).to_have_text("Pipeline")
    tab_to(page, page.locator(f"#dataset-{failed}-raw"))
    press(page, "ArrowRight")
    expect(page.locator(f"#job-{failed}-clean")).to_be_focused()
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft")
    expect(page.locator(f"#dataset-{failed}-tidy")).to_be_focused()
    press(page, "ArrowLeft", "Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{failed}-clean")
    press(page, "j")
    expect(page.get_by_role("table", name="Failed and held chunks").get_by_role("link", name="7")).to_be_focused()
    press(page, "Enter")
    expect(page.locator("#message")).to_contain_text("disk full on node2")
    opener = page.get_by_role("link", name="Resubmit downstream too…")
    tab_to(page, opener)
    press(page, "Enter")
    expect(page.get_by_role("link", name="Leave it")).to_be_focused()
    press(page, "Escape")
    expect(opener).to_be_focused()
    press(page, "Enter")
    expect(page.get_by_role("link", name="Leave it")).to_be_focused()
    press(page, "Shift+Tab")
    page.keyboard.type("the disk is larger now")
    press(page, "Enter")
    expect(page.get_by_role("alert")).to_contain_text("2 chunks will run again")
    watch_it_finish(site, page, failed)


def test_an_operator_holds_and_releases_a_chunk_and_pauses_a_job(site: Site, failed: str, visit: Visit) -> None:
    story = f"/pipeline/jobs/{failed}-report/chunks/7"
    page = visit(site, story, scopes=("read", "operate"))
    assert page.locator(".acts a").all_inner_texts() == ["Resubmit…", "Hold…"], "force and forget are for admins"
    for opener, verb, status in (("Hold…", "Hold", "HOLD"), ("Release…", "Release", "READY")):
        page.get_by_role("link", name=opener, exact=True).click()
        page.get_by_label("Reason").fill("to look at it")
        page.get_by_role("button", name=verb, exact=True).click()
        expect(page.locator("#status")).to_have_text(status)
    page.goto(f"/pipeline/jobs/{failed}-report")
    page.get_by_role("link", name="Pause the job…").click()
    page.get_by_label("Reason").fill("the disk is small")
    page.get_by_role("button", name="Pause the job").click()
    expect(page.locator("#paused")).to_contain_text("the disk is small")
    page.get_by_role("link", name="Resume the job…").click()
    page.get_by_role("button", name="Resume the job").click()
    expect(page.get_by_role("alert")).to_contain_text("is running again")
    viewer = visit(site, story, scopes=("read",), expected=("status of 403",))
    assert viewer.locator(".acts a").count() == 0
    answer = viewer.goto(f"{story}/hold")
    assert answer is not None
    assert answer.status == 403


def test_a_grid_of_many_is_narrowed_to_a_chunk_without_a_script(site: Site, visit: Visit) -> None:
    site.gate.ledger.define_dataset("many")
    site.gate.ledger.publish("many", [f"{number}" for number in range(1, 1101)])
    page = visit(site, "/pipeline/grid?dataset=many", java_script_enabled=False)
    grid = page.get_by_role("table", name="Chunks by data id and dataset")
    expect(grid.locator("tbody tr")).to_have_count(2)
    grid.get_by_role("link", name="1 … 1000", exact=True).click()
    grid.get_by_role("link", name="451 … 500", exact=True).click()
    expect(grid.locator("tbody tr")).to_have_count(50)
    grid.get_by_role("link", name="READY: many 477").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("many/477")


def test_the_log_of_each_attempt_is_on_the_page_of_the_chunk(site: Site, failed: str, visit: Visit) -> None:
    """With its secrets masked, as plain text, and without a script: reload to see more while it runs."""
    job, environment = f"{failed}-clean", {**os.environ, "HEADGATE_URL": f"sqlite:///{site.folder}/headgate.sqlite"}
    for script in (r"printf 'first \033[31m<b>try</b>\033[0m\n'; exit 4", "echo second; echo oh no >&2; exit 5"):
        site.gate.ledger.resubmit(job, "7", reason="try again")
        words = [*WORK, job, "--", "sh", "-c", script]
        subprocess.run(words, env=environment, capture_output=True, check=False)
    page = visit(site, f"/pipeline/jobs/{job}/chunks/7")
    expect(page.locator("#message")).to_contain_text("exit code 5: oh no")
    newest, earlier = page.locator("article.log"), page.locator("details.log")
    expect(newest.locator("pre")).to_have_text(["second\n", "oh no\n"])
    expect(earlier.locator("pre")).not_to_be_visible()
    earlier.locator("summary").click()
    expect(earlier.locator("pre")).to_have_text("first <b>try</b>\n")
    expect(earlier.locator("pre")).to_be_visible()
