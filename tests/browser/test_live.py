"""Pages that follow what happens, keep still under a reader, and survive the end of the service."""

from playwright.sync_api import expect

from tests.browser.conftest import Visit, press
from tests.browser.site import Site

HELD = "Locks that are held"


def test_changes_are_shown_live_until_the_page_is_paused(site: Site, visit: Visit) -> None:
    page = visit(site, "/locks?client=happens")
    expect(page.locator("#live-word")).to_have_text("Live")
    first = site.gate.locks.acquire("happens", "file:/happens/1", "shared")
    expect(page.get_by_role("link", name="file:/happens/1")).to_be_visible()
    expect(page.locator("#announcer")).to_have_text("0 clients waiting, 1 lock found")
    press(page, "p")
    expect(page.locator("#live-word")).to_have_text("Updates paused")
    site.gate.locks.release(first)
    with page.expect_response(lambda answer: "/locks?client=happens" in answer.url):
        page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("link", name="file:/happens/1")).to_have_count(0)


def test_rows_stay_where_the_focus_is_and_new_ones_wait(site: Site, visit: Visit) -> None:
    locks = site.gate.locks
    first = locks.acquire("stay", "file:/stay/1", "shared")
    page = visit(site, "/locks?client=stay")
    link = page.get_by_role("link", name="file:/stay/1")
    link.focus()
    locks.acquire("stay", "file:/stay/2", "shared")
    show = page.get_by_role("button", name="1 new: show")
    expect(show).to_be_visible()
    expect(link).to_be_focused()
    locks.release(first)
    expect(page.locator("tr[data-gone]")).to_contain_text("file:/stay/1")
    expect(link).to_be_focused()
    show.click()
    expect(page.get_by_role("table", name=HELD).locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("link", name="file:/stay/2")).to_be_visible()


def test_a_live_update_keeps_what_the_user_typed(site: Site, visit: Visit) -> None:
    page = visit(site, "/locks?client=typed")
    field = page.get_by_label("Client")
    field.fill("half a na")
    site.gate.locks.acquire("typed", "file:/typed/1", "shared")
    expect(page.get_by_role("link", name="file:/typed/1")).to_be_visible()
    expect(field).to_be_focused()
    expect(field).to_have_value("half a na")


def test_the_page_continues_after_the_service_was_killed(own_site: Site, visit: Visit) -> None:
    gone = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
    own_site.gate.locks.acquire("me", "file:/1", "shared")
    page = visit(own_site, "/locks", expected=gone)
    expect(page.locator("#live-word")).to_have_text("Live")
    own_site.kill()
    expect(page.locator("#live-word")).to_have_text("Reconnecting")
    expect(page.get_by_role("link", name="file:/1")).to_be_visible()
    own_site.gate.locks.acquire("you", "file:/2", "shared")
    own_site.start_again()
    expect(page.locator("#live-word")).to_have_text("Live", timeout=20_000)
    expect(page.get_by_role("table", name=HELD).locator("tbody tr")).to_have_count(2)


def test_the_theme_is_kept_and_single_keys_can_be_switched_off(site: Site, visit: Visit) -> None:
    page = visit(site)
    page.get_by_label("Theme").select_option("dark")
    page.goto("/locks")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    press(page, "?")
    page.get_by_label("Turn off single-key shortcuts").check()
    page.get_by_role("button", name="Close").click()
    press(page, "?")
    press(page, "g")
    press(page, "o")
    assert page.locator("dialog[open]").count() == 0
    assert page.url.endswith("/locks")
