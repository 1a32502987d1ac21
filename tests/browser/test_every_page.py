"""Every page x empty, full, error x light, dark x wide, narrow: no violation of WCAG 2.2 AA, and no overflow."""

import re

import pytest
from playwright.sync_api import Page

from headgate.http.dashboard.pages import ROUTERS
from tests.browser.conftest import Look, Sites, Visit, axe_clean, fits, in_looks
from tests.browser.site import ARK

#: Each page adds a line here.
PAGES = [
    "/",
    "/sign-in",
    "/pipeline",
    "/pipeline/grid",
    "/pipeline/grid?status=ERROR",
    "/pipeline/grid?status=PENDING",
    "/pipeline/incidents",
    "/pipeline/incidents?show=closed",
    "/pipeline/late",
    "/pipeline/late?dataset=nothing",
    "/pipeline/selected?act=resubmit&all=1&job=clean&status=ERROR",
    "/locks",
    "/locks?client=nobody",
    "/ingest",
    "/ingest/batches",
    "/ingest/jobs",
    "/ingest/jobs?profile=nobody",
    "/ingest/objects",
    "/ingest/messages",
    "/history",
    "/history?client=nobody",
]
#: Addresses that are not pages: a question before an action, files.
NO_PAGES = {"/ingest/hold", "/favicon.ico"}
STATES = ["empty", "full", "error"]
#: Console messages about a store that is broken on purpose.
BROKEN = ("status of 500", "status of 503")


def test_every_page_is_in_the_list() -> None:
    routes = [route for router in ROUTERS for route in router.declared if route.method == "GET"]
    plain = {route.path for route in routes if not re.search(r"\{|\.csv$", route.path)}
    assert {page.partition("?")[0] for page in PAGES} == plain - NO_PAGES


LOOKS: list[Look] = [(1280, "light"), (1280, "dark"), (375, "dark"), (375, "light")]
#: The content of a page for one thing, in the extremes.
FEWER_LOOKS: list[Look] = [(1280, "light"), (320, "dark"), (320, "light")]


@pytest.mark.timeout(300)  # It checks sixty pictures of pages.
@pytest.mark.parametrize("state", STATES)
def test_every_page_is_accessible_in_every_state(sites: Sites, visit: Visit, state: str) -> None:
    page = visit(sites(state), "/sign-in", expected=BROKEN)
    for path in PAGES:
        page.goto(path)
        assert (page.locator("h1").count(), page.locator("main").count()) == (1, 1), path
        for _ in in_looks(page, LOOKS):
            fits(page)
            axe_clean(page)


def accessible(page: Page) -> None:
    """Accessible, and not too wide, in both extremes."""
    for _ in in_looks(page, FEWER_LOOKS):
        axe_clean(page)
        fits(page)


def accessible_question(page: Page, name: str) -> None:
    """A dialog that the link opens is accessible as well."""
    page.get_by_role("link", name=name).click()
    page.locator("dialog[open]").wait_for()
    for _ in in_looks(page, FEWER_LOOKS):
        axe_clean(page)


def test_a_lock_and_its_question_are_accessible(sites: Sites, visit: Visit) -> None:
    site = sites("full")
    lock = site.gate.locks.list(client="etl-7")[0]
    page = visit(site, f"/locks/{lock.id}")
    accessible(page)
    accessible_question(page, "Break the lock…")
    page.goto(f"/locks/{lock.id}/break")
    accessible(page)


def test_a_job_a_chunk_and_its_question_are_accessible(sites: Sites, visit: Visit) -> None:
    site, chunk = sites("full"), "/pipeline/jobs/clean/chunks/2026-11-07"
    page = visit(site, "/pipeline/jobs/clean", expected=("status of 404",))
    for path in ("/pipeline/jobs/clean", chunk, "/pipeline/datasets/raw/chunks/2026-11-07", f"{chunk}/force"):
        page.goto(path)
        accessible(page)
    page.goto("/pipeline/jobs/nobody")
    for _ in in_looks(page, FEWER_LOOKS):
        fits(page)


def test_a_batch_a_job_and_their_questions_are_accessible(sites: Sites, visit: Visit) -> None:
    site = sites("full")
    (failed,) = site.gate.queue.jobs("failed")
    page = visit(site, f"/ingest/batch/{failed.batch}")
    accessible(page)
    page.goto(f"/ingest/job/{failed.id}")
    accessible(page)
    accessible_question(page, "Set the priority…")
    acts = (f"/ingest/job/{failed.id}/delete", "/ingest/hold", "/ingest/holds/other/clear")
    for path in (f"/ingest/object/{ARK}", *acts):
        page.goto(path)
        accessible(page)


def test_every_page_fits_at_320_px_with_wide_spacing_and_forced_colours(sites: Sites, visit: Visit) -> None:
    spacing = "* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important; }"
    page = visit(sites("full"), "/", width=320, forced_colors="active", reduced_motion="reduce", bypass_csp=True)
    for path in PAGES:
        page.goto(path)
        fits(page)
        page.add_style_tag(content=spacing)
        fits(page)
