"""Every page x empty, full, error x light, dark x wide, narrow: no breach of WCAG 2.2 AA, and it fits."""

import re

import pytest

from headgate.http.dashboard.pages import ROUTERS
from tests.browser.conftest import Sites, Visit, axe_clean, fits
from tests.browser.site import ARK

#: A page author adds a line.
PAGES = [
    "/",
    "/sign-in",
    "/pipeline",
    "/pipeline/grid",
    "/pipeline/grid?status=ERROR",
    "/pipeline/grid?status=PENDING",
    "/locks",
    "/locks?client=nobody",
    "/ingest",
    "/ingest/batches",
    "/ingest/jobs",
    "/ingest/jobs?profile=nobody",
    "/ingest/objects",
    "/history",
    "/history?client=nobody",
]
#: Addresses that are no page of their own: a question before an act, files.
NO_PAGES = {"/ingest/hold", "/favicon.ico"}
STATES = ["empty", "full", "error"]
#: What the console tells of a store that is broken on purpose.
BROKEN = ("status of 500", "status of 503")


def test_every_page_is_looked_at() -> None:
    routes = [route for router in ROUTERS for route in router.declared if route.method == "GET"]
    plain = {route.path for route in routes if not re.search(r"\{|\.csv$", route.path)}
    assert {page.partition("?")[0] for page in PAGES} == plain - NO_PAGES


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("state", STATES)
def test_every_page_is_accessible_in_every_state(
    sites: Sites, visit: Visit, state: str, theme: str, width: int
) -> None:
    page = visit(sites(state), "/sign-in", theme=theme, width=width, expected=BROKEN)
    for path in PAGES:
        page.goto(path)
        assert (page.locator("h1").count(), page.locator("main").count()) == (1, 1), path
        fits(page)
        # What a page says when the store is broken is one template: looking at it once is enough.
        if state != "error" or path == PAGES[0]:
            axe_clean(page)


def test_a_lock_and_its_question_are_accessible(sites: Sites, visit: Visit) -> None:
    site = sites("full")
    lock = site.gate.locks.list(client="etl-7")[0]
    for width in (1280, 320):
        page = visit(site, f"/locks/{lock.id}", width=width)
        axe_clean(page)
        fits(page)
        page.get_by_role("link", name="Break the lock…").click()
        page.locator("dialog[open]").wait_for()
        axe_clean(page)
        page.goto(f"/locks/{lock.id}/break")
        axe_clean(page)
        fits(page)


def test_a_job_a_chunk_and_its_question_are_accessible(sites: Sites, visit: Visit) -> None:
    site, chunk = sites("full"), "/pipeline/jobs/clean/chunks/2026-11-07"
    for width, theme in ((1280, "light"), (320, "dark")):
        page = visit(site, "/pipeline/jobs/clean", width=width, theme=theme, expected=("status of 404",))
        for path in ("/pipeline/jobs/clean", chunk, "/pipeline/datasets/raw/chunks/2026-11-07", f"{chunk}/force"):
            page.goto(path)
            axe_clean(page)
            fits(page)
        page.goto("/pipeline/jobs/nobody")
        fits(page)


def test_a_batch_a_job_and_their_questions_are_accessible(sites: Sites, visit: Visit) -> None:
    site = sites("full")
    (failed,) = site.gate.queue.jobs("failed")
    for width in (1280, 320):
        page = visit(site, f"/ingest/batch/{failed.batch}", width=width)
        axe_clean(page)
        fits(page)
        page.goto(f"/ingest/job/{failed.id}")
        axe_clean(page)
        fits(page)
        page.get_by_role("link", name="Set the priority…").click()
        page.locator("dialog[open]").wait_for()
        axe_clean(page)
        acts = (f"/ingest/job/{failed.id}/delete", "/ingest/hold", "/ingest/holds/other/clear")
        for path in (f"/ingest/object/{ARK}", *acts):
            page.goto(path)
            axe_clean(page)
            fits(page)


def test_every_page_fits_at_320_px_with_wide_spacing_and_forced_colours(sites: Sites, visit: Visit) -> None:
    spacing = "* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important; }"
    page = visit(sites("full"), "/", width=320, forced_colors="active", reduced_motion="reduce", bypass_csp=True)
    for path in PAGES:
        page.goto(path)
        fits(page)
        page.add_style_tag(content=spacing)
        fits(page)
