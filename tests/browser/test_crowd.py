"""A crowded site: the pages stay readable, and what an operator needs comes first."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, press
from tests.browser.crowd import DATASETS, Size, crowd
from tests.browser.site import Site

FLOW = ["readings", "stations", "clean-readings", "joined-readings", "daily-means", "anomalies", "maps", "archive"]
SIZE = Size(dataids=16, locks=101, waiters=3, batches=6, jobs=2)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("crowded"))
    crowd(site, SIZE)
    yield site
    site.close()


def column(page: Page, table: str, number: int) -> list[str]:
    return page.locator(f"#{table} tbody tr > :nth-child({number})").all_inner_texts()


def test_the_grid_opens_on_the_dataset_that_most_is_made_from_and_shows_all_in_flow_order(
    crowded: Site, visit: Visit
) -> None:
    """The unused dataset was defined first, and there are more datasets than six."""
    assert sorted(FLOW) == sorted(DATASETS)
    page = visit(crowded, "/pipeline/grid")
    assert page.locator("#grid thead th").all_inner_texts() == ["Data ids of readings", *FLOW]
    page.goto("/pipeline/grid?dataset=daily-means")
    assert page.locator("#grid thead th").all_inner_texts() == ["Data ids of daily-means", *FLOW]
    assert column(page, "grid", 2)[:1] == ["READY"]


def test_the_graph_fits_the_page_and_is_zoomed_by_keyboard(crowded: Site, visit: Visit) -> None:
    page = visit(crowded, "/pipeline")
    graph, box = page.locator("svg.graph"), page.locator(".graph-box")

    def sideways() -> int:
        return int(box.evaluate("box => box.scrollWidth - box.clientWidth"))

    assert sideways() <= 0
    name = page.locator(".node-name").first
    assert name.evaluate("text => text.getBoundingClientRect().height") >= 11, "names are readable"
    page.locator("a.node").first.focus()
    press(page, "+")
    expect(page.locator("#zoom-now")).to_have_text("150 %")
    assert page.url.endswith("zoom=150")
    assert sideways() > 0
    expect(page.locator("a.node").first).to_be_focused()
    press(page, "0")
    expect(graph).to_have_class("graph graph-fit")
    assert sideways() <= 0
    page.get_by_role("link", name="Zoom out").click()
    expect(page.locator("#zoom-now")).to_have_text("75 %")


def test_waiters_come_first_and_locks_are_found_by_parts_and_sorted(crowded: Site, visit: Visit) -> None:
    page = visit(crowded, "/locks")
    assert page.locator("main h2").all_inner_texts() == ["Waiting", "Held"]
    expect(page.get_by_role("table", name="Clients that wait for a lock")).to_contain_text("report-0")
    assert column(page, "held", 6)[:3] == ["2", "1", "0"], "those that somebody waits for"
    page.get_by_role("link", name="Holder").click()
    holders = column(page, "held", 2)
    assert [name.partition("\n")[0] for name in holders] == sorted(name.partition("\n")[0] for name in holders)
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("#held tbody tr")).to_have_count(crowded.gate.locks.status()["lockCount"] - 100)
    page.get_by_label("Resource contains").fill("PART-0007")
    page.get_by_role("button", name="Filter").click()
    assert len(column(page, "held", 1)) == 1
    page.goto("/locks?client=port-2")
    assert [text.partition("\n")[0] for text in column(page, "waiting", 2)] == ["report-2"]


def test_a_failed_batch_looks_failed_and_lists_name_what_is_in_them(crowded: Site, visit: Visit) -> None:
    (failed,) = crowded.gate.queue.batches("failed")[-1:]
    page = visit(crowded, f"/ingest/batch/{failed.id}")
    assert page.locator("progress").count() == 0
    bar = page.locator("dl .shares rect:not(.rest)")
    assert bar.evaluate_all("parts => parts.map(part => part.className.baseVal)") == ["fill-failed"]
    assert page.locator("#jobs tbody").inner_text().count("Map of the harbour, 1874, sheet 0") == 1
    page.goto("/ingest/jobs?state=failed")
    expect(page.locator("#jobs tbody tr").first).to_contain_text("object-000.checkm")
    page.goto("/ingest/batches")
    expect(page.locator("#batches tbody tr").first).to_contain_text("Harbour survey, part 1")
    expect(page.locator("#batches tbody tr").first).to_contain_text("harbour-survey-1.checkm")
    page.goto("/ingest")
    expect(page.locator("#jobs-failed")).to_contain_text("sheet 0")


def test_an_error_that_may_be_retried_has_no_green_tick(crowded: Site, visit: Visit) -> None:
    crowded.gate.ledger.define_job("sums", inputs=["archive"], outputs=[])
    claim = crowded.gate.ledger.claim("sums", "2015")
    crowded.gate.ledger.fail(claim, message="no room")
    page = visit(crowded, "/pipeline/jobs/sums/chunks/2015")
    line = page.locator(".conditions li", has_text="ERROR")
    assert line.locator(".line-ok").count() == 0
    assert line.locator(".line-held .icon-warn").count() == 1
    expect(line).to_contain_text("failed, may be retried:")


def test_a_held_batch_is_released_with_its_collection(crowded: Site, visit: Visit) -> None:
    held = crowded.gate.queue.batches("held")[0]
    page = visit(crowded, f"/ingest/batch/{held.id}")
    assert page.locator(".acts a").all_inner_texts() == ["Release collection theses…", "Delete…"]
    page.get_by_role("link", name="Release collection theses…").click()
    page.get_by_label("Reason").fill("there is room again")
    page.get_by_role("button", name="Release the collection").click()
    expect(page.locator("#said")).to_contain_text("2 set to pending")
    assert crowded.gate.queue.batch(held.id).state == "pending"


def test_pausing_the_queue_asks_for_no_collection_and_is_not_pausing_the_page(crowded: Site, visit: Visit) -> None:
    page = visit(crowded, "/ingest")
    expect(page.get_by_role("button", name=re.compile("Pause"))).to_have_text("Pause updates")
    page.get_by_role("link", name="Pause the queue…").click()
    dialog = page.get_by_role("dialog", name="Pause the whole queue?")
    expect(dialog).to_be_visible()
    assert [each.strip() for each in dialog.locator("label").all_inner_texts()] == ["Reason (recorded in the history)"]
    dialog.get_by_label("Reason").fill("the tape library is full")
    dialog.get_by_role("button", name="Pause the queue").click()
    expect(page.locator("#said")).to_contain_text("the tape library is full")
    assert crowded.gate.queue.hold_of("*")
    crowded.gate.queue.clear_hold("*")
