"""A browser and the sites that it visits. An error on any page fails the test that visited it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AxeResults
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.browser.site import Site, break_store, fill, working_site

CHROMIUM = "/usr/bin/chromium"
HEIGHT = 800
#: Milliseconds within which a page has to show what is expected, on a machine that is busy with other tests.
expect.set_options(timeout=30_000)
#: Requirements for every page.
AXE = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
#: Width and theme.
Look = tuple[int, Literal["light", "dark"]]
Visit = Callable[..., Page]
Sites = Callable[[str], Site]


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """A site by its state: empty, full, error (none of them is changed), working or shared; each is started once."""
    made: dict[str, Site] = {}

    def site(state: str) -> Site:
        if state not in made:
            made[state] = (working_site if state == "working" else Site)(tmp_path_factory.mktemp(state))
            if state == "full":
                fill(made[state])
            if state == "error":
                break_store(made[state])
        return made[state]

    yield site
    for each in made.values():
        each.close()


@pytest.fixture
def site(sites: Sites) -> Site:
    """A site that several tests change: each uses its own resources."""
    return sites("shared")


@pytest.fixture
def own_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site that the test may change, kill and start again."""
    site = Site(tmp_path_factory.mktemp("own"))
    yield site
    site.close()


# For the tests of one file, because an open browser keeps the thread's event loop, which other tests may need.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@dataclass
class Watch:
    """Events that must not happen on any page."""

    origin: str
    found: list[str] = field(default_factory=list)
    #: Answers that the test provokes on purpose, in the console's wording: "status of 403".
    expected: tuple[str, ...] = ()

    def attach(self, context: BrowserContext) -> None:
        context.on("console", self._console)
        context.on("weberror", lambda error: self.found.append(f"script: {error.error}"))
        context.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(text in message.text for text in self.expected):
            self.found.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.origin, "data:", "about:")):
            self.found.append(f"request: {request.url}")


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """A signed-in page of a site: `visit(site, "/locks", scopes=["read"], width=375, theme="dark")`.

    `expected`: parts of console messages that the test provokes. More arguments go to the browser's context.
    """
    watches: list[Watch] = []
    contexts: list[BrowserContext] = []

    def open_page(
        site: Site, path: str = "/", *, scopes: tuple[str, ...] = (), width: int = 1280, theme: str = "light",
        expected: tuple[str, ...] = (), signed_in: bool = True, **options: Any,
    ) -> Page:  # fmt: skip
        options |= {"viewport": {"width": width, "height": HEIGHT}, "color_scheme": theme}
        context = browser.new_context(base_url=site.url, **options)
        contexts.append(context)
        watches.append(Watch(site.url, expected=expected))
        watches[-1].attach(context)
        if signed_in:
            context.add_cookies([session_cookie(site, *scopes)])
        page = context.new_page()
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for watch in watches for text in watch.found] == []


def session_cookie(site: Site, *scopes: str) -> Any:
    """The result of signing in, without the form."""
    signed = site.gate.sessions.sign_in(site.token(*scopes))
    return {"name": f"headgate-{site.gate.store.tag}", "value": signed, "url": site.url, "httpOnly": True}


def press(page: Page, *keys: str) -> None:
    """Press one key after another, once the page's scripts have run."""
    for key in keys:
        page.wait_for_load_state("load")
        page.keyboard.press(key)


def in_looks(page: Page, looks: Sequence[Look]) -> Iterator[None]:
    """A loaded page in one width and theme after another, once nothing moves any more."""
    for width, theme in looks:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.emulate_media(color_scheme=theme)
        page.evaluate("() => Promise.all(document.getAnimations().map(each => each.finished))")
        yield


def axe_clean(page: Page) -> None:
    """No violation of WCAG 2.2 AA, nor of axe's best practices."""
    if page.evaluate("typeof axe") == "undefined":  # Sharing a page for reading takes half the time.
        page.evaluate(Axe().axe_script)
    results = AxeResults(page.evaluate("options => axe.run(options).then(({violations}) => ({violations}))", AXE))
    assert results.violations_count == 0, f"{page.url}\n{results.generate_report()}"


def fits(page: Page) -> None:
    """Nothing but tables is wider than the window."""
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{page.url} is {wide} px too wide"
