"""What an operator does in the queue: holds a collection and releases it, learns why a job failed, resumes it, watches
it finish, and reads in the history what happened."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from headgate import Gate
from headgate.core.queue.model import IngestJob
from tests.browser.conftest import Sites, Visit, press
from tests.browser.site import ARK, Site, move_job
from tests.waiting import until

SECONDS = 30_000
#: A job that succeeded, before or after the cleaner has processed it.
ENDED = re.compile("completed|cleaned")


@pytest.fixture
def working(sites: Sites) -> Site:
    """Daemons work on what is submitted; downloads fail until the disk is repaired."""
    site = sites("working")
    (site.folder / "repaired").unlink(missing_ok=True)
    return site


def failed_job(site: Site, profile: str) -> IngestJob:
    """A job that the daemons could not download, and whose batch was reported."""
    site.gate.queue.submit(profile, "ann", "https://example.org/x")
    until(lambda: bool(site.gate.queue.batches("failed", profile=profile)), f"{profile} to fail")
    return site.gate.queue.jobs("failed", profile=profile)[0]


def tab_to(page: Page, wanted: Locator) -> None:
    """Only by the Tab key."""
    for _ in range(80):
        press(page, "Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{wanted} is not reached by the Tab key")


def test_a_collection_is_held_and_released_by_mouse(working: Site, visit: Visit) -> None:
    working.gate.queue.submit("mouse", "ann", "https://example.org/before")
    page = visit(working)
    page.get_by_role("link", name="Ingest", exact=True).click()
    page.get_by_role("link", name="Hold a collection…").click()
    dialog = page.get_by_role("dialog", name="Hold a collection?")
    dialog.get_by_label("Collection").fill("mouse")
    dialog.get_by_label("Reason").fill("the quota is used up")
    dialog.get_by_role("button", name="Hold the collection").click()
    expect(page.get_by_role("alert")).to_contain_text("Collection mouse is held")
    batch = working.gate.queue.submit("mouse", "ann", "https://example.org/x")
    # A daemon finds it held; the page shows it without a reload.
    lane = page.locator("#batches-held")
    expect(lane.get_by_role("link", name=batch.id)).to_be_visible(timeout=SECONDS)
    expect(page.locator("#hold-mouse")).to_contain_text("the quota is used up")
    page.locator("#hold-mouse").get_by_role("link", name="Release…").click()
    dialog = page.get_by_role("dialog", name="Release collection mouse?")
    expect(dialog).to_contain_text("1 batch and 0 jobs become pending again")
    dialog.get_by_label("Reason").fill("there is room")
    dialog.get_by_role("button", name="Release the collection").click()
    expect(page.get_by_role("alert")).to_contain_text("Collection mouse is released: 1 set to pending")
    expect(lane.get_by_role("link", name=batch.id)).to_have_count(0)
    assert working.gate.queue.hold_of("mouse") is None
    told = working.gate.history(item=batch.id, event="release")[0]
    assert "there is room" in told.reason


def test_a_collection_is_held_and_released_by_keyboard_alone(working: Site, visit: Visit) -> None:
    working.gate.queue.submit("keys", "ann", "https://example.org/before")
    page = visit(working)
    press(page, "g", "i")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ingest")
    tab_to(page, page.get_by_role("link", name="Hold a collection…"))
    press(page, "Enter")
    expect(page.get_by_role("link", name="Keep it running")).to_be_focused()
    press(page, "Shift+Tab", "Shift+Tab")
    page.keyboard.type("keys")
    press(page, "Tab")
    page.keyboard.type("typed")
    press(page, "Tab", "Tab", "Enter")
    expect(page.get_by_role("alert")).to_contain_text("Collection keys is held")
    tab_to(page, page.locator("#hold-keys").get_by_role("link", name="Release…"))
    press(page, "Enter")
    expect(page.get_by_role("link", name="Keep the hold")).to_be_focused()
    press(page, "Tab", "Enter")
    expect(page.get_by_role("alert")).to_contain_text("Collection keys is released")
    assert working.gate.queue.hold_of("keys") is None


def test_a_failed_job_is_found_understood_resumed_and_watched_by_mouse(working: Site, visit: Visit) -> None:
    job = failed_job(working, "repaired-by-mouse")
    page = visit(working)
    page.get_by_role("link", name="Resume or delete").click()
    page.get_by_label("Profile").fill("repaired-by-mouse")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name=job.id).click()
    expect(page.get_by_role("main")).to_contain_text("the disk is full")
    (working.folder / "repaired").touch()
    page.get_by_role("link", name="Resume…").click()
    dialog = page.get_by_role("dialog", name=f"Resume {job.id}?")
    expect(dialog).to_contain_text("State: failed → downloading")
    dialog.get_by_label("Reason").fill("a new disk")
    dialog.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("alert")).to_contain_text(f"{job.id} is now downloading")
    expect(page.get_by_role("heading", level=1)).to_contain_text(ENDED, timeout=SECONDS)
    assert working.gate.queue.job(job.id).retry_count == 1
    page.get_by_role("link", name="Full history").click()
    row = page.get_by_role("table", name="History entries").locator("tr", has_text="resume")
    expect(row).to_contain_text("a new disk")
    expect(row).to_contain_text("failed → downloading")


def test_the_same_by_keyboard_alone(working: Site, visit: Visit) -> None:
    job = failed_job(working, "repaired-by-keys")
    page = visit(working, "/ingest/jobs?state=failed&profile=repaired-by-keys")
    press(page, "j")
    expect(page.get_by_role("link", name=job.id)).to_be_focused()
    press(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(job.id)
    (working.folder / "repaired").touch()
    tab_to(page, page.get_by_role("link", name="Resume…"))
    press(page, "Enter")
    expect(page.get_by_role("link", name="Leave it")).to_be_focused()
    press(page, "Shift+Tab")
    page.keyboard.type("typed")
    press(page, "Tab", "Tab", "Enter")
    expect(page.get_by_role("alert")).to_contain_text(f"{job.id} is now downloading")
    expect(page.get_by_role("heading", level=1)).to_contain_text(ENDED, timeout=SECONDS)


@pytest.fixture
def failed(site: Site, request: pytest.FixtureRequest) -> IngestJob:
    """A failed job of a batch of its own, without a daemon."""
    return broken_job(site.gate, request.node.name)


def broken_job(gate: Gate, profile: str) -> IngestJob:
    gate.queue.submit(profile, "ann", "https://example.org/x")
    batch = gate.queue.acquire_batch("pending", worker="a test")
    assert batch
    assert batch.profile == profile
    # The second one waits, so that the service's own daemon does not report the batch.
    gate.queue.create_jobs(
        batch, [{"payload_url": f"https://example.org/{place}", "priority": place} for place in (0, 99)]
    )
    gate.queue.fire(batch, "start")
    move_job(gate, "pending", "accept")
    for state in ("estimating", "provisioning"):
        move_job(gate, state, "finish")
    return move_job(gate, "downloading", "fail", "no such file")


def test_only_what_the_table_and_the_token_allow_is_shown_and_done(site: Site, failed: IngestJob, visit: Visit) -> None:
    path = f"/ingest/job/{failed.id}"
    page = visit(site, path, scopes=("read", "operate"), expected=("status of 403",))
    expect(page.get_by_role("link", name="Resume…")).to_be_visible()
    assert page.get_by_role("link", name="Delete…").count() == 0
    answer = page.goto(f"{path}/delete")
    assert answer is not None
    assert answer.status == 403
    viewer = visit(site, path, scopes=("read",))
    assert viewer.get_by_role("link", name=re.compile("…$")).count() == 0
    admin = visit(site, f"{path}/release", expected=("status of 404",))
    expect(admin.get_by_role("main")).to_contain_text("Possible in state failed: resume, delete")
    pending = site.gate.queue.submit("too early", "ann", "https://example.org/x")
    assert site.gate.queue.acquire_batch("pending", worker="a test", lease=3600)
    admin.goto(f"/ingest/batch/{pending.id}")
    expect(admin.get_by_role("heading", level=1)).to_contain_text("pending")
    assert admin.get_by_role("link", name="Delete…").count() == 0


def test_a_job_gets_another_priority_and_is_deleted(site: Site, failed: IngestJob, visit: Visit) -> None:
    page = visit(site, f"/ingest/job/{failed.id}/priority", expected=("status of 422",))
    field = page.locator("#field-priority")
    field.evaluate("field => { field.type = 'text'; }")
    field.fill("1000")
    page.get_by_label("Reason").fill("first of all")
    page.get_by_role("button", name="Set the priority").click()
    expect(page.get_by_role("alert")).to_contain_text("is not a whole number from 0")
    field.fill("0")
    page.get_by_role("button", name="Set the priority").click()
    expect(page.get_by_role("alert")).to_contain_text("is now 0")
    page.get_by_role("link", name="Delete…").click()
    dialog = page.get_by_role("dialog", name=f"Delete {failed.id}?")
    expect(dialog).to_contain_text("This cannot be undone.")
    dialog.get_by_label("Reason").fill("sent twice")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("alert")).to_contain_text("was deleted")
    # Removed items still have a history.
    page.goto(f"/ingest/job/{failed.id}")
    expect(page).to_have_url(re.compile(f"/history.item={failed.id}"))
    expect(page.get_by_role("table", name="History entries")).to_contain_text("sent twice")


def test_history_is_filtered_paged_and_reported_as_of_a_time(site: Site, failed: IngestJob, visit: Visit) -> None:
    lock = site.gate.locks.acquire("historian", f"file:/history/{failed.id}", "shared")
    site.gate.locks.release(lock)
    page = visit(site, "/history")
    table = page.get_by_role("table", name="History entries")
    page.get_by_label("Client").fill("historian")
    page.get_by_role("button", name="Filter").click()
    expect(table.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Event").select_option("grant")
    page.get_by_role("button", name="Filter").click()
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(table.get_by_role("link", name=lock.resource)).to_be_visible()
    submitted = site.gate.history(item=failed.batch, event="submit")[0]
    page.goto(f"/history?item={failed.id}&until={failed.since.isoformat().replace('+00:00', '')}")
    expect(page.locator("#as-of")).to_contain_text(f"{failed.id} was failed")
    before = submitted.at.isoformat().replace("+00:00", "")
    page.goto(f"/history?item={failed.batch}&until={before}")
    expect(page.locator("#as-of")).to_contain_text(f"{failed.batch} was pending")
    expect(table.locator("tbody tr")).to_have_count(1)


def test_an_item_is_found_by_its_id(site: Site, failed: IngestJob, visit: Visit) -> None:
    page = visit(site, "/ingest/jobs")
    page.get_by_label("Id, ARK or local id").fill(f"jid{int(failed.id[3:])}")
    press(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(failed.id)
    page.goto("/ingest/batches?find=ark:/13030/nothing")
    expect(page.get_by_role("main")).to_contain_text("No objects match these filters.")


def test_an_object_is_found_by_its_local_id_and_leads_to_the_job_that_stored_it(sites: Sites, visit: Visit) -> None:
    page = visit(sites("full"), "/ingest/jobs")
    page.get_by_label("Id, ARK or local id").fill("map-1")
    press(page, "Enter")
    page.get_by_role("link", name=ARK).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("A <b>map</b>")
    expect(page.get_by_role("table", name="Files of version 1").locator("tbody tr")).to_have_count(3)
    page.get_by_role("link", name="jid0000000002").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(ENDED)
    page.get_by_role("link", name="bid0000000001").first.click()
    expect(page.get_by_role("table", name="Messages")).to_contain_text("mail")
