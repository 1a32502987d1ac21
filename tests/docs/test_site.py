"""The site is built with every warning as an error, and all of its links lead somewhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.docs.pages import ROOT

DOCS = ROOT / "docs"


def build(source: Path, target: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Like `make docs`, with the settings of the docs."""
    words = ["-W", "--keep-going", "-n", "-q", "-E", "-b", "html", *options, "-c", DOCS, source, target]
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *map(str, words)], capture_output=True, text=True, timeout=100, check=False
    )


class _Links(HTMLParser):
    """The links of a page, and its link targets."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.names: set[str] = set()
        #: What a browser fetches with the page.
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.names |= {name for key in ("id", "name") if (name := found.get(key))}
        targets = [target for key in ("href", "src") if (target := found.get(key))]
        self.targets += targets
        self.loaded += targets if tag != "a" else []


def links_of(page: Path) -> _Links:
    links = _Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


def broken(site: Path) -> Iterator[str]:
    """Each link within the site that leads nowhere."""
    pages = {page.resolve(): links_of(page) for page in site.rglob("*.html")}
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            names = pages[path].names if path in pages else set()
            if not path.exists() or (parts.fragment and path.suffix == ".html" and parts.fragment not in names):
                yield f"{page.relative_to(site.resolve())}: {target}"


#: Everything that causes a fetch: in style sheets and in scripts, including those within pages.
FETCHES = re.compile(r"""(?:url\(|@import |\b(?:import|fetch)\b[^\n]{0,40})['"]?((?:https?:)?//[^'")\s]+)""")


def from_elsewhere(site: Path) -> Iterator[str]:
    """What a browser would fetch from other sites to show the site."""
    for page in site.rglob("*.html"):
        yield from (target for target in links_of(page).loaded if urlsplit(target).netloc)
    for file in (each for ending in ("html", "css", "js") for each in site.rglob(f"*.{ending}")):
        yield from FETCHES.findall(file.read_text(encoding="utf-8"))


def test_the_site_is_built_without_a_warning_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    done = build(DOCS, tmp_path, "-D", "html_theme=basic")  # The theme of the site takes as long as everything else.
    assert done.returncode == 0, done.stderr
    assert list(broken(tmp_path)) == []
    assert list(from_elsewhere(tmp_path)) == []
    assert len(list(tmp_path.rglob("*.html"))) > len(list(DOCS.rglob("*.md")))


def test_broken_links_and_pages_without_links_are_errors(tmp_path: Path) -> None:
    """All of them reported together."""
    index = "# Here\n\n[one](nowhere.md) [two](#not-here)\n\n```{toctree}\nabsent\n```\n"
    (tmp_path / "index.md").write_text(index, encoding="utf-8")
    (tmp_path / "orphan.md").write_text("# Nobody leads to me\n", encoding="utf-8")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert list(from_elsewhere(tmp_path / "site")) == []
    for told in ("nowhere.md", "not-here", "absent", "orphan.md"):
        assert told in done.stderr
