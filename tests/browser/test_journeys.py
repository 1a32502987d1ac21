"""What an operator does: signs in, finds who holds a lock and why another waits, breaks it, and watches."""

import re

import pytest
from playwright.sync_api import expect

from headgate import Lock, LockLost
from headgate.cli.service.found import FIRST_TOKEN
from tests.browser.conftest import Visit, axe_clean, press
from tests.browser.site import Site


@pytest.fixture
def lock(site: Site, request: pytest.FixtureRequest) -> Lock:
    """A lock with a waiter."""
    held = site.gate.locks.acquire("etl-7", f"s3://raw/{request.node.name}", "exclusive", lease=3600)
    site.wait_for("etl-9", held.resource)
    return held


def test_the_printed_address_signs_in_once_and_signing_out_ends_it(site: Site, visit: Visit) -> None:
    (first,) = (each for each in site.gate.tokens.list() if each.name == FIRST_TOKEN)
    code = site.gate.sessions.new_code(first.id).code
    page = visit(site, f"/sign-in#code={code}", signed_in=False, expected=("status of 401",))
    # Another person may have created the link: nobody is signed in without a confirmation.
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in as first start?")
    assert code not in page.url
    assert page.context.cookies() == []
    axe_clean(page)
    page.get_by_role("button", name="Sign in as first start").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile(r"running, \d+ failures? in the last day"))
    assert code not in page.content()
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.goto("/locks")
    expect(page).to_have_url(re.compile(r"/sign-in\?next=%2Flocks"))
    page.goto(f"/sign-in#code={code}")
    expect(page.get_by_role("alert")).to_contain_text("was used already or has expired")


def test_a_wrong_token_is_reported_and_a_revoked_one_signs_out(site: Site, visit: Visit) -> None:
    page = visit(site, "/locks", signed_in=False, expected=("status of 401",))
    page.get_by_label("API token or sign-in code").fill("hg_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("does not have the form")
    token = site.gate.tokens.new("to be revoked", ["read"])
    page.get_by_label("API token or sign-in code").fill(token.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile("/locks$"))
    site.gate.tokens.revoke(token.id)
    # The page itself notices it: it reloads when something happens, and periodically.
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in", timeout=20_000)


def test_a_lock_is_inspected_and_broken_by_mouse(site: Site, lock: Lock, visit: Visit) -> None:
    page = visit(site)
    page.get_by_role("link", name="Locks", exact=True).click()
    page.get_by_label("Resource").fill(lock.resource)
    page.get_by_role("button", name="Filter").click()
    waiting = page.get_by_role("table", name="Clients that wait for a lock")
    expect(waiting.locator("tbody tr")).to_contain_text("etl-7 holds it exclusive")
    page.get_by_role("link", name=lock.resource).click()
    page.get_by_role("link", name="Break the lock…").click()
    dialog = page.get_by_role("dialog", name=f"Break the exclusive lock on {lock.resource}?")
    expect(dialog).to_contain_text("the holder is alive")
    expect(dialog).to_contain_text("1 client waiting; etl-9 is next")
    expect(dialog.get_by_role("link", name="Keep the lock")).to_be_focused()
    dialog.get_by_label("Reason").fill("the node is gone")
    dialog.get_by_label("to confirm").fill(lock.resource)
    dialog.get_by_role("button", name="Break the lock").click()
    expect(page.get_by_role("alert")).to_contain_text("was broken")
    assert_broken(site, lock, "the node is gone")
    row = page.get_by_role("table", name="Locks that are held").locator("tr", has_text=lock.resource)
    expect(row).to_contain_text("etl-9")


def test_the_same_by_keyboard_alone(site: Site, lock: Lock, visit: Visit) -> None:
    page = visit(site)
    press(page, "g")
    press(page, "l")
    expect(page.get_by_role("heading", level=1)).to_have_text("Locks")
    press(page, "/")
    page.keyboard.type(lock.resource)
    press(page, "Enter")
    expect(page.get_by_role("link", name="Clear")).to_be_visible()
    press(page, "j")
    expect(page.get_by_role("link", name="etl-7")).to_be_focused()
    press(page, "j")
    expect(page.get_by_role("link", name=lock.resource)).to_be_focused()
    press(page, "Tab")
    opener = page.get_by_role("link", name="Break…")
    expect(opener).to_be_focused()
    press(page, "Enter")
    keep = page.get_by_role("link", name="Keep the lock")
    expect(keep).to_be_focused()
    press(page, "Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(opener).to_be_focused()
    press(page, "Enter")
    expect(keep).to_be_focused()
    press(page, "Shift+Tab", "Shift+Tab")
    page.keyboard.type("typed")
    press(page, "Tab")
    page.keyboard.type(lock.resource)
    press(page, "Tab", "Tab", "Enter")
    expect(page.get_by_role("alert")).to_contain_text("was broken")
    assert_broken(site, lock, "typed")


def test_a_viewer_sees_no_action_and_is_refused(site: Site, lock: Lock, visit: Visit) -> None:
    for scopes in (("read",), ("read", "operate")):
        page = visit(site, f"/locks?resource={lock.resource}", scopes=scopes, expected=("status of 403",))
        expect(page.get_by_role("link", name=lock.resource)).to_be_visible()
        assert page.get_by_text("Break").count() == 0
        answer = page.goto(f"/locks/{lock.id}/break")
        assert answer is not None
        assert answer.status == 403
        expect(page.get_by_role("heading", level=1)).to_have_text("Not allowed")
    assert site.gate.locks.check(lock).id == lock.id


def test_without_a_script_all_pages_are_readable_and_a_lock_is_broken(site: Site, lock: Lock, visit: Visit) -> None:
    page = visit(
        site,
        f"/locks?resource={lock.resource}",
        signed_in=False,
        java_script_enabled=False,
        expected=("status of 422",),
    )
    page.get_by_label("API token or sign-in code").fill(site.token())
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("table", name="Clients that wait for a lock")).to_contain_text("etl-7 holds it exclusive")
    assert page.get_by_role("button", name="Pause").count() == 0
    page.get_by_role("link", name="Break…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Break the exclusive lock on {lock.resource}?")
    page.get_by_label("Reason").fill("no script")
    page.get_by_label("to confirm").fill("something else")
    page.get_by_role("button", name="Break the lock").click()
    expect(page.get_by_role("alert")).to_contain_text(f"is not {lock.resource}")
    assert site.gate.locks.check(lock).id == lock.id
    page.get_by_label("Reason").fill("no script")
    page.get_by_label("to confirm").fill(lock.resource)
    page.get_by_role("button", name="Break the lock").click()
    expect(page.get_by_role("alert")).to_contain_text("was broken")
    assert_broken(site, lock, "no script")


def assert_broken(site: Site, lock: Lock, reason: str) -> None:
    told = site.gate.history(lock.resource, event="break")[0]
    assert reason in told.reason
    with pytest.raises(LockLost):
        site.gate.locks.check(lock)
