"""Pictures of every page of the dashboard on a crowded store: 20,000 chunks, 200 locks, 500 ingest jobs.

.venv/bin/python tools/screenshots.py FOLDER                  # about two minutes; every page, wide and narrow
.venv/bin/python tools/screenshots.py FOLDER --store STORE    # keeps the filled store there, and uses it again
.venv/bin/python tools/screenshots.py docs/images --readme    # the picture of the README: the example
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.browser.conftest import CHROMIUM, session_cookie
from tests.browser.crowd import Size, crowd, wait
from tests.browser.site import Site
from tests.browser.test_every_page import PAGES

Theme = Literal["light", "dark"]
#: Width and theme of each picture of a page.
LOOKS: Mapping[str, tuple[int, Theme]] = {
    "wide": (1280, "light"), "narrow": (390, "light"), "dark": (1280, "dark"),
}  # fmt: skip
README = (1280, 860)
MOST_HEIGHT = 2400


def main() -> None:
    """Fill a store, and take the pictures."""
    asked = _arguments()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        if asked.readme:
            readme(browser, Path(temporary), asked.folder)
        else:
            every_page(browser, (asked.store or Path(temporary)).absolute(), asked.folder)
        browser.close()


def readme(browser: Browser, work: Path, folder: Path) -> None:
    """The overview of the example, as the README shows it."""
    example = [sys.executable, "-m", "headgate", "up", "--example", "--once", "-q", "--listen", "127.0.0.1:0"]
    subprocess.run(example, cwd=work, check=True, stdout=subprocess.DEVNULL)
    with closing(Site(work / "headgate-example", store="headgate.db")) as site:
        page = _page(browser, site, *README)
        page.goto("/")
        page.screenshot(path=folder / "dashboard.png")


def every_page(browser: Browser, store: Path, folder: Path) -> None:
    """Every page of a crowded site."""
    filled = (store / "headgate.sqlite").exists()
    store.mkdir(parents=True, exist_ok=True)
    with closing(Site(store)) as site:
        wait(site, Size().waiters) if filled else crowd(site, Size())
        photograph(browser, site, folder)


def photograph(browser: Browser, site: Site, folder: Path) -> None:
    """Every page in every combination of width and theme, named after its address."""
    for look, (width, theme) in LOOKS.items():
        page = _page(browser, site, width, 900, theme)
        for path in (*PAGES, *_things(site)):
            page.goto(path)
            height = min(page.evaluate("document.documentElement.scrollHeight"), MOST_HEIGHT)
            page.set_viewport_size({"width": width, "height": max(height, 900)})
            page.screenshot(path=folder / f"{_name(path)}.{look}.png")
            page.set_viewport_size({"width": width, "height": 900})


def _things(site: Site) -> Iterator[str]:
    """Pages of single items, and questions before actions."""
    gate = site.gate
    waited = gate.locks.waiters()[0].resource
    lock = gate.locks.list(waited)[0]
    yield from (f"/locks/{lock.id}", f"/locks/{lock.id}/break", "/locks?resource=READINGS&client=etl-1")
    failed = gate.ledger.failures(1)[0]
    chunk = f"/pipeline/jobs/{failed.job}/chunks/{failed.dataid}"
    yield from (f"/pipeline/jobs/{failed.job}", chunk, f"{chunk}/resubmit", f"{chunk}/force")
    yield from ("/pipeline?zoom=100", "/pipeline/grid?dataset=daily-means&size=50", "/pipeline/grid?size=1")
    yield from ("/ingest/hold", "/ingest/hold?profile=*", "/ingest/holds/theses/clear")
    for state in ("failed", "held", "processing", "completed"):
        if found := gate.queue.batches(state, limit=1):
            yield f"/ingest/batch/{found[0].id}"
    job = gate.queue.jobs("failed", limit=1)[0]
    yield from (f"/ingest/job/{job.id}", f"/ingest/job/{job.id}/resume", f"/ingest/job/{job.id}/delete")
    yield f"/ingest/object/{gate.inventory.objects(limit=1)[0].ark}"
    yield "/no-such-page"


def _page(browser: Browser, site: Site, width: int, height: int, theme: Theme = "light") -> Page:
    viewport: Any = {"width": width, "height": height}
    context = browser.new_context(base_url=site.url, viewport=viewport, color_scheme=theme, reduced_motion="reduce")
    context.add_cookies([session_cookie(site)])
    return context.new_page()


def _name(path: str) -> str:
    kept = (letter if letter.isalnum() or letter in "-_=" else "." for letter in path.strip("/") or "overview")
    return "".join(kept)[:100]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="Folder for the pictures.")
    parser.add_argument("--store", type=Path, help="Folder of a filled store; it is filled if it is empty.")
    parser.add_argument("--readme", action="store_true", help="Only the picture of the README.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
