"""An operator acts on many chunks at once: checks some, or all that match, reads the effects, and confirms."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, axe_clean, in_looks, press
from tests.browser.site import Site
from tests.browser.test_pipeline import tab_to

#: More than one page of a list.
FAILED = 60


@pytest.fixture
def failed(site: Site, request: pytest.FixtureRequest) -> str:
    """A separate job, all of whose chunks failed."""
    name = "selected-" + re.sub(r"\W", "-", request.node.name.removeprefix("test_"))[:20]
    ledger = site.gate.ledger
    for dataset in ("raw", "tidy"):
        ledger.define_dataset(f"{name}-{dataset}")
    ledger.define_job(f"{name}-job", inputs=[f"{name}-raw"], outputs=[f"{name}-tidy"], max_attempts=1)
    ledger.publish(f"{name}-raw", [str(number) for number in range(1, FAILED + 1)])
    for _ in range(FAILED):
        claim = ledger.find_next(f"{name}-job", worker="node2")
        assert claim
        ledger.fail(claim, message="disk full")
    return f"{name}-job"


def count(site: Site, job: str, status: str) -> int:
    return len(site.gate.ledger.status(job=job, status=status, kind="OUTPUT"))


def confirm(page: Page, job: str, verb: str, *, typed: bool) -> None:
    page.get_by_label("Reason").fill("the disk is larger now")
    if typed:
        page.get_by_label("Type").fill(job)
    page.get_by_role("button", name=verb, exact=True).click()


def test_some_and_then_all_that_match_are_resubmitted_by_mouse(site: Site, failed: str, visit: Visit) -> None:
    page = visit(site, f"/pipeline/grid?status=ERROR&job={failed}")
    for number in ("1", "3"):
        page.get_by_role("checkbox", name=f"Select {failed} {number}", exact=True).check()
    expect(page.locator("[data-picked]")).to_have_text("2 selected")
    for _ in in_looks(page, [(1280, "light"), (375, "dark")]):
        axe_clean(page)
    page.get_by_role("button", name="Resubmit…", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Resubmit: 2 chunks?")
    expect(page.locator(".consequences")).to_contain_text("2 chunks selected: 2 ERROR.")
    axe_clean(page)
    confirm(page, failed, "Resubmit", typed=False)
    expect(page.get_by_role("alert")).to_contain_text("Resubmit: 2 chunks changed")
    assert (count(site, failed, "RESUBMIT"), count(site, failed, "ERROR")) == (2, FAILED - 2)
    page.get_by_label("All chunks that match the filters").check()
    page.get_by_role("button", name="Hold…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Hold: {FAILED - 2} chunks?")
    confirm(page, failed, "Hold", typed=True)
    expect(page.get_by_role("alert")).to_contain_text(f"Hold: {FAILED - 2} chunks changed")
    assert count(site, failed, "HOLD") == FAILED - 2


def test_the_same_by_keyboard_from_the_page_of_the_job(site: Site, failed: str, visit: Visit) -> None:
    page = visit(site, f"/pipeline/jobs/{failed}")
    press(page, "j", "x", "j", "x", "x", "j", "x")
    expect(page.locator("[data-picked]")).to_have_text("2 selected")
    tab_to(page, page.get_by_role("button", name="Resubmit…", exact=True))
    press(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Resubmit: 2 chunks?")
    tab_to(page, page.get_by_label("Reason"))
    page.keyboard.type("the disk is larger now")
    press(page, "Enter")
    expect(page.get_by_role("alert")).to_contain_text("Resubmit: 2 chunks changed")
    assert count(site, failed, "RESUBMIT") == 2


def test_a_running_chunk_is_named_and_left_alone_without_a_script(site: Site, failed: str, visit: Visit) -> None:
    site.gate.ledger.force(failed, "2", reason="by hand", worker="node9")
    page = visit(site, f"/pipeline/grid?job={failed}", java_script_enabled=False)
    for number in ("1", "2"):
        page.get_by_role("checkbox", name=f"Select {failed} {number}", exact=True).check()
    page.get_by_role("button", name="Resubmit…", exact=True).click()
    expect(page.locator(".consequences")).to_contain_text("1 chunk will be left alone: 2: a worker is processing it")
    confirm(page, failed, "Resubmit", typed=False)
    expect(page.get_by_role("alert")).to_contain_text("1 chunk left alone: 2")
    viewer = visit(site, f"/pipeline/grid?job={failed}", scopes=("read",))
    assert viewer.get_by_role("checkbox", name="Select").count() == 0
