"""`make docs` builds a site of all documents, whose links lead to pages, headings and files that are there."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from docs.build_site import CONFIGURATION, pages
from tests.support.repository import ROOT

SITE = ROOT / "build/site"


class Page(HTMLParser):
    """What a page links to, and the places in it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects both."""
        given = dict(attrs)
        self.places.add(given.get("id") or "")
        self.links += [link for name in ("href", "src") if (link := given.get(name))]


def test_every_page_is_on_the_site_and_every_link_leads_somewhere() -> None:
    named = list(pages(tomllib.loads(CONFIGURATION.read_text("utf-8"))["project"]["nav"]))
    written = {str(page.relative_to(ROOT)) for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))}
    assert written <= set(named)
    assert len(named) == len(set(named))

    built = subprocess.run(
        [sys.executable, "-m", "docs.build_site"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr

    site = {file: Page(file) for file in SITE.rglob("*.html") if file.name != "404.html"}
    assert len(site) >= len(named)
    dead, checked = [], 0
    for file, page in site.items():
        for link in map(urlsplit, page.links):
            if link.scheme or link.netloc:
                continue
            target = (file.parent / unquote(link.path)).resolve() if link.path else file
            target = target / "index.html" if target.is_dir() else target
            place = unquote(link.fragment)
            is_there = target in site and (not place or place in site[target].places)
            if not (is_there or (target.is_file() and not place)):
                dead.append(f"{file.parent.relative_to(SITE)}: {link.geturl()}")
            checked += 1
    assert dead == []
    assert checked > 1000
