"""Every page, in a real browser: whoever reads it, on whatever, by whatever means, finds their way."""

from __future__ import annotations

import base64
import io
from collections.abc import AsyncIterator

import pypdf
import pytest
import pytest_asyncio
from selenium.webdriver import ActionChains, Keys

from tests.support.repository import ROOT
from tests.support.services.browser import TELEPHONE, Browser
from tests.support.services.every_page import addresses, unknown
from tests.support.services.web_pages import Reader, served

pytestmark = pytest.mark.asyncio(loop_scope="module")

AXE = (ROOT / "tests/data/axe.min.js").read_text("utf-8")
FAULTS = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => arguments[0](found.violations
    .map((v) => [v.impact, v.id, v.nodes.length, v.nodes[0].target.join(" "), v.nodes[0].failureSummary])));
"""
OVER = "return document.documentElement.scrollWidth - innerWidth"
LISTEN = """
window.reached = [];
window.wanted = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")]
    .filter((e) => e.checkVisibility() && !e.disabled && e.tabIndex >= 0);
document.addEventListener("focusin", (event) => {
    const style = getComputedStyle(event.target);
    reached.push([event.target, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0]);
});
"""
# What the keyboard reaches comes in the order of the page, from its beginning; each with a mark.
REACHED = """
const found = [...new Set(reached.map(([e]) => e))].filter((e) => wanted.includes(e));
const few = found.length < Math.min(wanted.length, 25);
const wrong = wanted.find((e, n) => n < found.length ? e !== found[n] : few);
// Behind the last one the browser begins again by itself, which is no key that was pressed in the page.
const firsts = reached.filter(([e], n) => n === reached.findIndex(([other]) => other === e));
const unmarked = firsts.find(([e, marked]) => !marked && e.id !== "main");
return [found[0]?.className, wrong?.outerHTML, unmarked?.[0].outerHTML];
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def empty(url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    """The pages of a database with nothing in it."""
    async with served(url, tmp_path_factory.mktemp("empty"), "--edit") as reader:
        yield reader


async def test_every_page_has_an_example() -> None:
    assert unknown() == [], "name the rows of these paths in tests/support/services/every_page.py"


@pytest.mark.parametrize(
    ("width", "dark", "rows"), [(1280, False, True), (TELEPHONE, True, True), (TELEPHONE, False, False)]
)
async def test_every_page_can_be_read_by_everybody(
    browser: Browser, hostile: Reader, empty: Reader, width: int, dark: bool, rows: bool
) -> None:
    reader = hostile if rows else empty
    browser.sign_in(reader)
    browser.look(width=width, dark=dark)
    faults: list[object] = []
    for path in addresses():
        browser.open(path)
        browser.run(AXE)
        faults += [(path, *fault) for fault in browser.wait_for(FAULTS)]
        if (over := browser.run(OVER)) > 0:
            faults.append((path, "scrolls sideways", over))
    # A row that an empty database does not have is an answer too, of which a browser complains.
    faults += [said for said in browser.complaints() if "status of 404" not in said or rows]
    faults += [url for url in browser.requested() if not url.startswith((reader.address, "data:image/"))]
    assert not faults, "\n".join(map(str, faults))


async def test_every_page_is_used_by_the_keyboard_alone(browser: Browser, hostile: Reader) -> None:
    browser.sign_in(hostile)
    faults = []
    for path in addresses():
        browser.open(path)
        browser.run(LISTEN)
        ActionChains(browser.driver).send_keys(Keys.TAB * 50).perform()
        first, wrong, unmarked = browser.run(REACHED)
        if first != "skip" or wrong is not None or unmarked is not None:
            faults.append((path, first, wrong, unmarked))
    assert not faults, "\n".join(map(str, faults))
    browser.open("/memories")
    ActionChains(browser.driver).send_keys(Keys.TAB, Keys.ENTER, Keys.TAB).perform()
    assert browser.run("return document.querySelector('main').contains(document.activeElement)")


async def test_every_page_is_printed_without_what_is_of_the_screen(browser: Browser, hostile: Reader) -> None:
    browser.sign_in(hostile)
    for path in addresses():
        browser.open(path)
        printed = browser.tell("Page.printToPDF")["data"]
        text = "\n".join(
            p.extract_text() for p in pypdf.PdfReader(io.BytesIO(base64.b64decode(printed))).pages
        )
        title = str(browser.run("return document.querySelector('h1:not(.unseen), h2').innerText"))
        assert title.split(maxsplit=1)[0] in text, path
        assert len(text) > len(title) + 10, path
        assert "Sign out" not in text, path
